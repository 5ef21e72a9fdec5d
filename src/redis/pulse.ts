/** Reads and writes a node's pulse (`core/nodes/continuity.ts`), and whether its writes are durable. */

import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { PULSE_EVERY_MS, type Pulse } from '../core/nodes/continuity.ts'
import { EPOCH_KEY, PULSE_KEY } from './keys.ts'
import { ownScript } from './own-script.ts'

const SOURCE = `#!lua flags=allow-oom\n${readFileSync(new URL('./lua/pulse.lua', import.meta.url), 'utf8')}`

const call = ownScript(SOURCE, 2)

/** A field of the hash: the pulse of the other node with this name. */
const OF = 'of:'

export async function readPulse(client: Redis): Promise<Pulse | undefined> {
  // An unreadable pulse is none, and less is known of the node.
  const fields: Readonly<Record<string, string>> = await client.hgetall(PULSE_KEY).catch(() => ({}))
  const { name, run: runId, ms, durable } = fields
  const nodeMs = Number(ms)
  if (name === undefined || runId === undefined || !Number.isFinite(nodeMs)) return undefined
  const others = new Map<string, number>()
  for (const field of Object.keys(fields))
    if (field.startsWith(OF)) others.set(field.slice(OF.length), Number(fields[field]))
  return { name, runId, nodeMs, durable: durable === '1', others }
}

/**
 * @param epoch under which the node was seen to vote
 * @returns the pulse after that; undefined where the node does not vote under this epoch
 */
export async function writePulse(
  client: Redis,
  epoch: string,
  { name, durable, others }: Pick<Pulse, 'name' | 'durable' | 'others'>,
): Promise<number | undefined> {
  const args = [epoch, PULSE_EVERY_MS, name, durable ? 1 : 0]
  for (const [other, ms] of others) args.push(other, ms)
  const stands = await call(client, PULSE_KEY, EPOCH_KEY, ...args)
  return typeof stands === 'string' ? Number(stands) : undefined
}

/**
 * Whether the node is configured so that each write is on its disk before its answer. False where it does not say: its
 * user may not read that, or a managed service runs it.
 *
 * @param field of the node's INFO
 */
export async function readDurable(client: Redis, field: Promise<(name: string) => string>): Promise<boolean> {
  const config = client.call('CONFIG', 'GET', 'appendfsync', 'no-appendfsync-on-rewrite')
  const [flat, info] = await Promise.all([config.catch(() => []), field])
  const entries = Array.isArray(flat) ? flat.map(String) : []
  const setting = (name: string) => entries[entries.indexOf(name) + 1]
  return (
    entries.includes('appendfsync') &&
    setting('appendfsync') === 'always' &&
    setting('no-appendfsync-on-rewrite') === 'no' &&
    // A replica that takes over lacks what was not copied yet, and could not know by itself.
    info('connected_slaves') === '0' &&
    info('aof_enabled') === '1' &&
    info('aof_last_write_status') === 'ok'
  )
}
