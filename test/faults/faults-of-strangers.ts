/**
 * F47: a stranger who may write to one node writes what is impossible, old, huge or foreign, at every key of ours.
 *
 * Owns what is written. The others go on, so nothing is lost and nothing is executed twice; afterwards the node is emptied, as an
 * operator would, and learns again. An outcome of its own the stranger does not invent: without a key ring one node may
 * (docs/operations/security.md).
 */

import type { Redis } from 'ioredis'
import { majorityOf } from '../../src/core/units.ts'
import {
  auditStreamKey,
  CLUSTER_KEY,
  FOUNDER_KEY,
  HEARTBEAT_KEY,
  INCARNATION_KEY,
  QUARANTINE_KEY,
  RECORD_PATTERN,
  REJOIN_KEY,
  SWEEPER_LEADERSHIP,
  waitQueueKey,
} from '../../src/redis/keys.ts'
import { choose, during, type Fault, type FaultContext } from './fault.ts'
import { allVote, recorded, stillKnown } from './of-nodes.ts'
import { ANSWER_WITHIN_MS, NODES } from './stage.ts'

const WRITES_FOR_MS = 5_000
/** A look a second, and some records before one that is asked for. */
const NAMED_WITHIN_MS = 20_000
const KNOWN_KEYS = 4
const HUGE = '9000000000000000'

/** As `lua/record.lua` lays a record out: what becomes of a whole one. */
const WRITTEN: readonly ((record: Buffer) => Buffer)[] = [
  // Its promise and its ballot are those of a far future.
  (record) => Buffer.concat([record.subarray(0, 2), Buffer.from(HUGE), record.subarray(18)]),
  (record) => Buffer.concat([record.subarray(0, 2), Buffer.from(HUGE + HUGE), record.subarray(34)]),
  // A claim that ends in a far future.
  (record) =>
    Buffer.concat([Buffer.from('1C'), record.subarray(2, 66), Buffer.from(HUGE), record.subarray(82, 166)]),
  // Released, cut, and none at all.
  (record) => Buffer.concat([Buffer.from('1R'), record.subarray(2, 166)]),
  (record) => record.subarray(0, 40),
  () => Buffer.from('a value of another program'),
]

/** Of our own keys that are read as hashes, as texts and as streams. */
const OWN_HASHES = [QUARANTINE_KEY, HEARTBEAT_KEY]
const OWN_TEXTS = [INCARNATION_KEY, FOUNDER_KEY, REJOIN_KEY, SWEEPER_LEADERSHIP]
const OWN_STREAMS = [auditStreamKey('dead-letters'), auditStreamKey('audit')]

/**
 * Of records that a majority of the others has. Beside nodes that missed a command (in the fault before, say) one hostile node may vote
 * for a second holder: docs/operations/security.md.
 *
 * @param seen what the node had of records before: it is written back later, with a longer life
 */
async function spoilRecords(
  node: Redis,
  others: readonly Redis[],
  fraction: () => number,
  seen: Map<string, Buffer>,
): Promise<void> {
  const [, keys] = await node.scan('0', 'MATCH', RECORD_PATTERN, 'COUNT', 500)
  const key = keys[Math.floor(fraction() * keys.length)]
  if (key === undefined) return
  const there = await Promise.all(others.map((other) => other.exists(key)))
  if (there.filter((count) => count > 0).length < majorityOf(NODES)) return
  const record = await node.getBuffer(key).catch(() => null)
  if (record !== null && record.length > 166 && !seen.has(key)) seen.set(key, record)
  const kept = [...seen][Math.floor(fraction() * seen.size)]
  if (kept !== undefined) await node.set(kept[0], kept[1], 'PX', 600_000)
  const change = WRITTEN[Math.floor(fraction() * (WRITTEN.length + 1))]
  if (change === undefined) await node.multi().del(key).rpush(key, 'x').exec()
  else if (record !== null) await node.set(key, change(record), 'PX', 600_000)
}

async function spoilOwnKeys(node: Redis, fraction: () => number): Promise<void> {
  const keys = [...OWN_HASHES, ...OWN_TEXTS, ...OWN_STREAMS]
  const key = keys[Math.floor(fraction() * keys.length)] ?? INCARNATION_KEY
  await node.del(key)
  const kind = Math.floor(fraction() * 3)
  if (kind === 0) await node.rpush(key, 'x')
  else if (kind === 1) await node.set(key, `1:${HUGE}:${HUGE}`)
  else await node.hset(key, 'nonce', 'x', 'run_id', HUGE, 'at', HUGE)
}

/** What it says of the cluster: another id and list, a quarantine without an end; and of who waits for a record. */
async function spoilCluster(node: Redis, fraction: () => number): Promise<void> {
  const values = { id: 'another', quarantine_ms: HUGE, members: 'x,'.repeat(20_000), format: HUGE }
  const fields = Object.entries(values)
  const [field, value] = fields[Math.floor(fraction() * fields.length)] ?? ['id', HUGE]
  if (fraction() < 0.1) await node.multi().del(CLUSTER_KEY).rpush(CLUSTER_KEY, 'x').exec()
  else await node.hset(CLUSTER_KEY, field, value).catch(() => node.del(CLUSTER_KEY))
  const [, keys] = await node.scan('0', 'MATCH', RECORD_PATTERN, 'COUNT', 500)
  const until = Date.now() + 30_000
  for (const key of keys.slice(0, 20))
    await node.set(waitQueueKey(key), `${HUGE};abc:1:${HUGE}:${until}`, 'PX', 30_000)
}

/** What one node says of the others, who go on to vote. */
async function spoilHeartbeats(context: FaultContext, spoilt: number): Promise<void> {
  const { admin } = context.stage
  const node = admin[spoilt]
  for (const [other, { options }] of admin.entries()) {
    if (other === spoilt || node === undefined) continue
    const nonce = (await admin[other]?.get(INCARNATION_KEY))?.split(':')[2] ?? 'x'
    for (const name of [`redis-${other}`, `127.0.0.1:${options.port}`])
      await node.hset(HEARTBEAT_KEY, `counter:${name}`, `${nonce}:${HUGE}`, name, HUGE)
  }
}

/** One line of the log about this node alone that is no news of every day. */
function names(log: string, node: string): boolean {
  return log
    .split('\n')
    .some((line) => /"level":"(warn|error)"/.test(line) && line.includes(`"node":"${node}"`))
}

/** The others go on beside it, and say of which node they have heard what cannot be; then it is emptied, and learns again. */
function stranger(
  id: string,
  what: string,
  how: string,
  write: (node: Redis, context: FaultContext, index: number) => Promise<void>,
): Fault {
  return {
    id,
    what,
    how,
    inject: async (context) => {
      const { stage, fraction, demand, recentKeys } = context
      const [index = 0] = choose(fraction, NODES, 1)
      const node = stage.admin[index]
      if (node === undefined) return 0
      const known = recentKeys(KNOWN_KEYS)
      const before = stage.logs.map((log) => log.length)
      const writing = during(
        WRITES_FOR_MS,
        () => 5 + 20 * fraction(),
        () => write(node, context, index),
      )
      await demand('requests go on beside a node that a stranger writes to', ANSWER_WITHIN_MS, () =>
        recorded(context),
      )
      await demand('the log of a sidecar names the node, and says why', NAMED_WITHIN_MS, async () =>
        stage.logs.some((log, at) => names(log.slice(before[at]), `redis-${index}`)),
      )
      const times = await writing
      await stillKnown(context, known, 'beside a node that a stranger wrote to')
      await node.flushall()
      await allVote(context)
      return times
    },
  }
}

export const FAULTS_OF_STRANGERS: readonly Fault[] = [
  stranger(
    'F47a',
    'a stranger writes to the records of one node',
    'promises and leases of a far future, outcomes of before with a longer life, cut and foreign values, another type; then FLUSHALL',
    async (node, { stage, fraction }, index) =>
      spoilRecords(node, stage.admin.toSpliced(index, 1), fraction, seenOn(node)),
  ),
  stranger(
    'F47b',
    'a stranger writes to the keys of sidecars on one node',
    'foreign values and other types at incarnation, quarantine, heartbeat, leadership, founder, rejoin and streams; then FLUSHALL',
    async (node, { fraction }) => spoilOwnKeys(node, fraction),
  ),
  stranger(
    'F47c',
    'one node says of each other that it is far ahead',
    'HSET of a count of 9000000000000000 for each other node, under its own nonce; then FLUSHALL',
    async (_, context, index) => spoilHeartbeats(context, index),
  ),
  stranger(
    'F47d',
    'one node says of the cluster what is not so',
    'HSET of another id, list, format and a quarantine of 9000000000000000 ms; queues that are full and never end; then FLUSHALL',
    async (node, { fraction }) => spoilCluster(node, fraction),
  ),
]

const SEEN = new WeakMap<Redis, Map<string, Buffer>>()

function seenOn(node: Redis): Map<string, Buffer> {
  const seen = SEEN.get(node) ?? new Map<string, Buffer>()
  SEEN.set(node, seen)
  return seen
}
