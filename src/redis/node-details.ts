/** What `fencepost doctor` reads of one node besides its vote. Source: redis.io, INFO and TIME. */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import type { NodeDetails, Validity } from '../core/health/installation.ts'
import { type Offset, offsetOf } from '../core/nodes/clock-samples.ts'
import { forCommand, memoryOf } from './inspection.ts'
import { readDurable } from './pulse.ts'
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
