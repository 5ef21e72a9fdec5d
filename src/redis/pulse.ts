/** Reads and writes a node's heartbeat (`core/nodes/continuity.ts`), its counter (`node-history.ts`), and whether its writes are durable. */

import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { PULSE_EVERY_MS, type Pulse } from '../core/nodes/continuity.ts'
import type { Life } from '../core/nodes/fitness.ts'
import { EPOCH_KEY, PULSE_KEY } from './keys.ts'
import { ownScript } from './own-script.ts'

const SOURCE = `#!lua flags=allow-oom\n${readFileSync(new URL('./lua/pulse.lua', import.meta.url), 'utf8')}`

const call = ownScript(SOURCE, 2)

/** A field of the hash: the pulse of the other node with this name. */
const OF = 'of:'

/** A field of the hash: the counter of the other node with this name. */
const BEAT_OF = 'beat:'

export async function readLife(client: Redis): Promise<Life> {
  const fields: Readonly<Record<string, string>> | undefined = await client
    .hgetall(PULSE_KEY)
    .catch(() => undefined)
  // An unreadable pulse is none, and less is known of the node.
  if (fields === undefined) return { pulse: undefined, counters: undefined }
  const { name, run: runId, ms, durable, count = 0 } = fields
  const nodeMs = Number(ms)
  const [pulses, noted] = [new Map<string, number>(), new Map<string, string>()]
  for (const [field, value] of Object.entries(fields)) {
    if (field.startsWith(OF)) pulses.set(field.slice(OF.length), Number(value))
    else if (field.startsWith(BEAT_OF)) noted.set(field.slice(BEAT_OF.length), value)
  }
  const counters = { own: Number(count), others: noted }
  if (name === undefined || runId === undefined || !Number.isFinite(nodeMs))
    return { pulse: undefined, counters }
  return { pulse: { name, runId, nodeMs, durable: durable === '1', others: pulses }, counters }
}

/**
 * @param epoch under which the node was seen to vote
 * @param counters of other nodes, by their names
 * @returns the pulse after that, and its count; undefined where the node does not vote under this epoch
 */
export async function writePulse(
  client: Redis,
  epoch: string,
  { name, durable, others }: Pick<Pulse, 'name' | 'durable' | 'others'>,
  counters: ReadonlyMap<string, string>,
  everyMs = PULSE_EVERY_MS,
): Promise<{ readonly ms: number; readonly counter: number } | undefined> {
  const args: (string | number)[] = [epoch, everyMs, name, durable ? 1 : 0]
  for (const other of new Set([...others.keys(), ...counters.keys()]))
    args.push(other, others.get(other) ?? '', counters.get(other) ?? '')
  const stands = await call(client, PULSE_KEY, EPOCH_KEY, ...args)
  return Array.isArray(stands) ? { ms: Number(stands[0]), counter: Number(stands[1]) } : undefined
}

/** Writes what is known of other nodes' counters, and no heartbeat. */
export async function writeNotes(
  client: Redis,
  epoch: string,
  counters: ReadonlyMap<string, string>,
): Promise<void> {
  const notes = [...counters].flatMap(([other, counter]) => [other, '', counter])
  await call(client, PULSE_KEY, EPOCH_KEY, epoch, '', '', '', ...notes)
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
