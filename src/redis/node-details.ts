/**
 * What one node tells of its server: to `fencepost doctor`, and to the one sidecar that collects stats and the newest entries of the slow log.
 *
 * Owns what of a slow command leaves this file: its name and its time. Its arguments are keys and owners. Source: redis.io, INFO, TIME and SLOWLOG GET.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import type { NodeDetails, Validity } from '../core/health/installation.ts'
import { type Offset, offsetOf } from '../core/nodes/clock-samples.ts'
import type { NodeLook } from '../core/nodes/node-stats.ts'
import { within } from '../core/retry.ts'
import { forCommand, memoryOf, readDurable } from './inspection.ts'
import { fieldsOf, serverOf, whyUnsuitable } from './server-program.ts'

/** Undefined where it does not answer in time, or is no Redis or Valkey: then nothing that it says counts. */
export async function readNodeDetails(client: Redis, clock: Clock): Promise<NodeDetails | undefined> {
  if (client.status !== 'ready') return undefined
  try {
    const info = await forCommand(clock, client.info())
    const readings: Offset[] = []
    while (readings.length < CLOCK_READINGS) readings.push(await clockOf(client, clock))
    const field = fieldsOf(info)
    if (whyUnsuitable(field) !== undefined) return undefined
    const { program, version } = serverOf(field)
    return {
      version: `${program} ${version}`,
      evictionPolicy: field('maxmemory_policy'),
      appendOnly: field('aof_enabled') === '1',
      appendOnlyOk: field('aof_last_write_status') === 'ok',
      durable: await forCommand(clock, readDurable(client, Promise.resolve(field))),
      ...memoryOf(field),
      meanLeftMs: Number(/^db\d+:.*avg_ttl=(\d+)/m.exec(info)?.[1] ?? 0),
      clock: readings.reduce((best, one) => (one.uncertaintyMs < best.uncertaintyMs ? one : best)),
      certificate: certificateOf(client),
    }
  } catch {
    return undefined
  }
}

/** This process has just started, and its own stall would look like a long way to the node. */
const CLOCK_READINGS = 3

async function clockOf(client: Redis, clock: Clock): Promise<Offset> {
  const [sentWallMs, sentMonoMs] = [clock.wallMs(), clock.monoMs()]
  const [seconds, micros] = await forCommand(clock, client.time())
  const nodeMs = Number(seconds) * 1_000 + Number(micros) / 1_000
  return offsetOf(nodeMs, sentWallMs, clock.monoMs() - sentMonoMs)
}

function certificateOf({ stream }: Redis): Validity | undefined {
  const of = stream as { getPeerCertificate?: () => { valid_from?: string; valid_to?: string } }
  const { valid_from: from, valid_to: until } = of.getPeerCertificate?.() ?? {}
  if (from === undefined || until === undefined) return undefined
  return { fromMs: Date.parse(from), untilMs: Date.parse(until) }
}

/** Entries of the slow log that one look reads: some 40 KiB at most, with arguments that Redis shortens. */
export const SLOW_COMMANDS_MAX = 10

/** @throws Error where the node is not connected, or does not answer in time */
export async function readNodeStats(client: Redis, deadlineMs: number, clock: Clock): Promise<NodeLook> {
  if (client.status !== 'ready') throw new Error('not connected')
  // Users with the rights of an earlier docs/operations/nodes.md may not read it; the rest is useful without.
  const slowlog = Promise.all([
    client.call('SLOWLOG', 'LEN').catch(() => Number.NaN),
    client.call('SLOWLOG', 'GET', SLOW_COMMANDS_MAX).catch(() => undefined),
  ])
  const [info, [slowlogLength, entries]] = await within(
    clock,
    deadlineMs,
    Promise.all([client.info(), slowlog]),
    `no answer in ${deadlineMs} ms`,
  )
  const field = fieldsOf(info)
  const figure = (name: string) => Number(field(name) || Number.NaN)
  const slowCommands = slowCommandsIn(entries)
  return {
    stats: {
      memoryUsedBytes: figure('used_memory'),
      memoryMaxBytes: figure('maxmemory') || Number.NaN,
      memoryFragmentationRatio: figure('mem_fragmentation_ratio'),
      evictedKeys: figure('evicted_keys'),
      expiredKeys: figure('expired_keys'),
      connectedClients: figure('connected_clients'),
      blockedClients: figure('blocked_clients'),
      aofLastWriteOk:
        field('aof_enabled') === '1' ? Number(field('aof_last_write_status') === 'ok') : Number.NaN,
      slowlogLength: Number(slowlogLength),
      slowCommands: Array.isArray(entries) ? (slowCommands[0]?.id ?? -1) + 1 : Number.NaN,
    },
    slowCommands,
  }
}

/** An entry is `[id, seconds, microseconds, [command, …], …]`. */
function slowCommandsIn(entries: unknown): NodeLook['slowCommands'] {
  if (!Array.isArray(entries)) return []
  return entries.flatMap((entry) => {
    const [id, atSeconds, micros, args] = entry as [unknown, unknown, unknown, unknown]
    if (!Array.isArray(args)) return []
    return [
      {
        id: Number(id),
        command: nameOf(args[0]),
        durationMs: Number(micros) / 1_000,
        atWallMs: Number(atSeconds) * 1_000,
      },
    ]
  })
}

/** Whoever shares the node may have sent anything. */
function nameOf(command: unknown): string {
  const name = String(command).toUpperCase()
  return /^[A-Z][A-Z0-9._|-]{0,31}$/.test(name) ? name : 'other'
}
