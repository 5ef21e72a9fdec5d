/**
 * What is read of one Redis node to judge it: the inspection, the light poll, its heartbeat (`core/nodes/continuity.ts`) and its counter
 * (`node-history.ts`), which are written here as well. Which program may be a node is `server-program.ts`, and whether it is fit `core/nodes/fitness.ts`.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import { HEARTBEAT_EVERY_MS, type Heartbeat } from '../core/nodes/continuity.ts'
import type { Life, NodeFacts } from '../core/nodes/fitness.ts'
import { type LightPoll, UnsuitableServer } from '../core/nodes/member.ts'
import type { NodeMemory } from '../core/nodes/node-stats.ts'
import {
  type CopyProgress,
  type Lineage,
  type Membership,
  NEVER_A_REPLICA,
  type Quarantine,
} from '../core/nodes/rejoin-rules.ts'
import { CLUSTER_KEY, HEARTBEAT_KEY, INCARNATION_KEY } from './keys.ts'
import { callMembership, luaOf, ownScript } from './scripts.ts'
import { askWhyUnsuitable, fieldsOf, type InfoField, serverOf, whyUnsuitable } from './server-program.ts'

/**
 * @throws UnsuitableServer
 * @throws Error where the node does not answer, refuses what the ACL of `docs/operations/nodes.md` lists, or lacks the
 *   database of the URL
 */
export async function inspectNode(client: Redis): Promise<NodeFacts> {
  try {
    return await readFacts(client)
  } catch (cause) {
    if (cause instanceof UnsuitableServer) throw cause
    const unsuitable = await askWhyUnsuitable(client)
    throw unsuitable === undefined ? cause : new UnsuitableServer(unsuitable)
  }
}

async function readFacts(client: Redis): Promise<NodeFacts> {
  const { db = 0 } = client.options
  const [field, polled, life, durable] = await inOneWrite(client, () => {
    const info = client.info(...SECTIONS).then(fieldsOf)
    return Promise.all([
      info,
      callMembership(client, '', ['poll']),
      readLife(client),
      readDurable(client, info),
      // ioredis selects it as well, but if that is refused it goes on in database 0: another keyspace than the others'.
      db === 0 ? undefined : client.select(db),
    ])
  })
  const unsuitable = whyUnsuitable(field)
  if (unsuitable !== undefined) throw new UnsuitableServer(unsuitable)
  const membership = membershipOf(polled)
  return {
    ...membership,
    ...life,
    durable,
    startedNodeMs: membership.nodeMs - Number(field('uptime_in_seconds')) * 1_000,
    role: field('role'),
    lineage: lineageOf(field),
    evictionPolicy: field('maxmemory_policy'),
    evictedKeys: Number(field('evicted_keys')),
    memory: memoryOf(field),
    ...serverOf(field),
  }
}

/** What a poll reads of INFO stands in these. */
const SECTIONS = ['server', 'memory', 'persistence', 'stats', 'replication'] as const

/** What is sent in one turn leaves in one write, and wakes the node once; ioredis writes each command by itself. */
function inOneWrite<T>({ stream }: Redis, send: () => T): T {
  stream?.cork()
  try {
    return send()
  } finally {
    stream?.uncork()
  }
}

/** A server that was a replica shows as its second id which data it had then (`INFO replication`). */
function lineageOf(field: InfoField): Lineage {
  return /[^0]/.test(field('master_replid2')) ? field('master_replid') : NEVER_A_REPLICA
}

export function memoryOf(field: InfoField): NodeMemory {
  return {
    // Redis leaves the buffers of replicas and of the append-only file out of the limit.
    usedBytes: Math.max(0, Number(field('used_memory')) - Number(field('mem_not_counted_for_evict'))),
    limitBytes: Number(field('maxmemory')),
  }
}

/** For an operator's command: a suspended node must not hold it up. */
const COMMAND_DEADLINE_MS = 2_000

/** What a node reports to a command; undefined without an answer in time. */
export function inspectForCommand(client: Redis, clock: Clock): Promise<NodeFacts | undefined> {
  return forCommand(clock, inspectNode(client)).catch(() => undefined)
}

export function forCommand<T>(clock: Clock, answer: Promise<T>): Promise<T> {
  return inTime(clock, COMMAND_DEADLINE_MS, answer, `no answer within ${COMMAND_DEADLINE_MS} ms`)
}

function membershipOf(polled: unknown): Membership & Pick<NodeFacts, 'format' | 'refusal'> {
  if (!Array.isArray(polled) || typeof polled[0] !== 'string')
    throw new Error('the node does not show its run_id in INFO: allow the command, or use another server')
  const [runId, nodeMs, incarnation, flat, id, quarantineMs, members, format, refusal] = polled
  const textIn = (value: unknown) => (typeof value === 'string' ? value : undefined)
  const named = typeof members === 'string' && members !== '' ? { members: members.split(',') } : {}
  return {
    runId,
    nodeMs: Number(nodeMs),
    incarnation: textIn(incarnation),
    format: textIn(format),
    refusal: textIn(refusal),
    quarantine: quarantineOf(flat),
    cluster: typeof id === 'string' ? { id, quarantineMs: Number(quarantineMs), ...named } : undefined,
  }
}

/** Of a reply that is one list of names and values. */
export function pairsOf(flat: readonly unknown[]): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>()
  for (let at = 0; at + 1 < flat.length; at += 2) pairs.set(String(flat[at]), String(flat[at + 1]))
  return pairs
}

function quarantineOf(flat: unknown): Quarantine | undefined {
  if (!Array.isArray(flat) || flat.length === 0) return undefined
  const field = pairsOf(flat)
  const source = field.get('source') ?? ''
  const [declaredBy, lineage, evicted, catchUps] = ['declared_by', 'lineage', 'evicted', 'catch_ups'].map(
    (name) => field.get(name),
  )
  const progress: CopyProgress = {
    done: (field.get('done') ?? '').split(',').filter((runId) => runId !== ''),
    copied: Number(field.get('copied') ?? 0),
    ...(source === '' ? {} : { source: { runId: source, cursor: field.get('cursor') ?? '0' } }),
  }
  return {
    runId: field.get('run_id') ?? '',
    nonce: field.get('nonce') ?? '',
    sinceNodeMs: Number(field.get('since')),
    origin: field.get('origin') === 'new' ? 'new' : 'forgot',
    ...(declaredBy === undefined ? {} : { declaredBy }),
    ...(lineage === undefined ? {} : { lineage }),
    ...(evicted === undefined ? {} : { evictedKeys: Number(evicted) }),
    ...(catchUps === undefined ? {} : { catchUps: Number(catchUps) }),
    ...(field.get('duplicate_server') === '1' ? { duplicateServer: true } : {}),
    progress,
  }
}

/**
 * The promise, or an error with the sentence. Timers run before sockets are read, so after a stall of our own loop the
 * answer may be there already: it is read first.
 */
export function inTime<T>(
  clock: Clock,
  deadlineMs: number,
  promise: Promise<T>,
  sentence: string,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.timer(deadlineMs, () => setImmediate(() => reject(new Error(sentence))))
    promise.then(resolve, reject).finally(() => timer.cancel())
  })
}

/**
 * The few keys of a light poll (`core/nodes/light-polls.ts`).
 *
 * @throws Error where the node does not answer, or refuses one of the commands
 */
export async function lightPollOf(client: Redis): Promise<LightPoll> {
  const replies = await client
    .pipeline()
    .time()
    .get(INCARNATION_KEY)
    .hget(CLUSTER_KEY, 'quarantine_ms')
    .hgetall(HEARTBEAT_KEY)
    .exec()
  const [time, incarnation, quarantineMs, heartbeat] = (replies ?? []).map(([error, reply]) => {
    if (error !== null) throw error
    return reply
  })
  if (!Array.isArray(time)) throw new Error('the node does not tell its time')
  const [seconds, micros] = time.map(Number) as [number, number]
  const { run: runId, ms: heartbeatMs } = (heartbeat ?? {}) as { readonly run?: string; readonly ms?: string }
  return {
    nodeMs: seconds * 1_000 + Math.floor(micros / 1_000),
    incarnation: typeof incarnation === 'string' ? incarnation : undefined,
    quarantineMs: typeof quarantineMs === 'string' ? Number(quarantineMs) : undefined,
    heartbeat: runId === undefined ? undefined : { runId, nodeMs: Number(heartbeatMs) },
  }
}

const heartbeatScript = ownScript(`#!lua flags=allow-oom\n${luaOf('heartbeat')}`, 2)

/** A field of the hash: the heartbeat of the other node with this name. */
const OF = 'of:'

/** A field of the hash: the counter of the other node with this name. */
const COUNTER_OF = 'counter:'

export async function readLife(client: Redis): Promise<Life> {
  const fields: Readonly<Record<string, string>> | undefined = await client
    .hgetall(HEARTBEAT_KEY)
    .catch(() => undefined)
  // An unreadable heartbeat is none, and less is known of the node.
  if (fields === undefined) return { heartbeat: undefined, counters: undefined }
  const { name, run: runId, ms, durable, count = 0 } = fields
  const nodeMs = Number(ms)
  const [heartbeats, noted] = [new Map<string, number>(), new Map<string, string>()]
  for (const [field, value] of Object.entries(fields)) {
    if (field.startsWith(OF)) heartbeats.set(field.slice(OF.length), Number(value))
    else if (field.startsWith(COUNTER_OF)) noted.set(field.slice(COUNTER_OF.length), value)
  }
  const counters = { own: Number(count), others: noted }
  if (name === undefined || runId === undefined || !Number.isFinite(nodeMs))
    return { heartbeat: undefined, counters }
  return { heartbeat: { name, runId, nodeMs, durable: durable === '1', others: heartbeats }, counters }
}

/**
 * @param incarnation under which the node was seen to vote
 * @param counters of other nodes, by their names
 * @returns the heartbeat after that, and its count; undefined where the node does not vote under this incarnation
 */
export async function writeHeartbeat(
  client: Redis,
  incarnation: string,
  { name, durable, others }: Pick<Heartbeat, 'name' | 'durable' | 'others'>,
  counters: ReadonlyMap<string, string>,
  everyMs = HEARTBEAT_EVERY_MS,
): Promise<{ readonly ms: number; readonly counter: number } | undefined> {
  const args: (string | number)[] = [incarnation, everyMs, name, durable ? 1 : 0]
  for (const other of new Set([...others.keys(), ...counters.keys()]))
    args.push(other, others.get(other) ?? '', counters.get(other) ?? '')
  const stands = await heartbeatScript(client, HEARTBEAT_KEY, INCARNATION_KEY, ...args)
  return Array.isArray(stands) ? { ms: Number(stands[0]), counter: Number(stands[1]) } : undefined
}

/** Writes what is known of other nodes' counters, and no heartbeat. */
export async function writeNotes(
  client: Redis,
  incarnation: string,
  counters: ReadonlyMap<string, string>,
): Promise<void> {
  const notes = [...counters].flatMap(([other, counter]) => [other, '', counter])
  await heartbeatScript(client, HEARTBEAT_KEY, INCARNATION_KEY, incarnation, '', '', '', ...notes)
}

/**
 * Whether the node is configured so that each write is on its disk before its answer. False where it does not say: its
 * user may not read that, or a managed service runs it.
 *
 * @param field of the node's INFO
 */
export async function readDurable(client: Redis, field: Promise<InfoField>): Promise<boolean> {
  const config = client.call('CONFIG', 'GET', 'appendfsync', 'no-appendfsync-on-rewrite')
  const [flat, info] = await Promise.all([config.catch(() => []), field])
  const setting = pairsOf(Array.isArray(flat) ? flat : [])
  return (
    setting.get('appendfsync') === 'always' &&
    setting.get('no-appendfsync-on-rewrite') === 'no' &&
    // A replica that takes over lacks what was not copied yet, and could not know by itself.
    info('connected_slaves') === '0' &&
    info('aof_enabled') === '1' &&
    info('aof_last_write_status') === 'ok'
  )
}
