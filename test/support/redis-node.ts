/** One `RedisNode` on one real server, joined by hand: for tests of the node itself, without a cluster. */
import type { Redis } from 'ioredis'
import type { Clock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/events.ts'
import { ANSWER_MAX_AGE_MS } from '../../src/core/quorum/tally.ts'
import { createRedisClient, type RedisAddress } from '../../src/redis/connect.ts'
import { INCARNATION_KEY } from '../../src/redis/keys.ts'
import { RedisNode } from '../../src/redis/node.ts'
import { loadBatchScript } from '../../src/redis/scripts.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { VIRTUAL_START_WALL_MS } from './virtual-clock.ts'

export type OpenNode = AsyncDisposable & { readonly node: RedisNode; readonly client: Redis }

/** A stopped clock: on a busy machine a round trip may outlast a lease of a test, and then the vote does not count. */
export const STANDING_CLOCK: Clock = { ...systemClock, monoMs: () => 0, wallMs: () => VIRTUAL_START_WALL_MS }

export const TEST_INCARNATION = '1:test:incarnation'

/** Far above the need of a loaded machine: tests of the deadline itself give their own. */
const PATIENT_DEADLINE_MS = 5_000

export async function openRedisNode(
  address: RedisAddress,
  { deadlineMs = PATIENT_DEADLINE_MS, maxTokenAheadMs = 60_000, joins = true, clock = systemClock } = {},
): Promise<OpenNode> {
  const client = createRedisClient(address, { connectTimeoutMs: 2_000, random: systemRandom })
  client.on('error', () => {}) // A test that breaks the connection judges the answers.
  await client.connect()
  if (joins) await client.set(INCARNATION_KEY, TEST_INCARNATION)
  const node = new RedisNode({
    name: 'redis-0',
    client,
    script: loadBatchScript(),
    deadlineMs,
    maxTokenAheadMs,
    answerMaxAgeMs: ANSWER_MAX_AGE_MS,
    clock,
    events: SILENT,
  })
  node.useIncarnation(TEST_INCARNATION)
  return { node, client, [Symbol.asyncDispose]: async () => client.disconnect() }
}
