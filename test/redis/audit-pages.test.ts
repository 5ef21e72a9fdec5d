/** Dead letters beyond the first page, on three real nodes that wrote them in different orders, and of which each lacks some. */
import { Redis } from 'ioredis'
import { beforeAll, expect, test } from 'vitest'
import { type AuditPlace, NEWEST, pageOf, placeOf } from '../../src/core/coordination/audit-log.ts'
import { createRedisAuditLog } from '../../src/redis/audit-log.ts'
import { systemClock } from '../../src/system/clock.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { deadLetterId, writeDeadLetters } from '../support/many-dead-letters.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const LETTERS = 2_300
const PAGE = 1_000

const stack = stackOfTests()
let clients: readonly Redis[]
/** Whether each node answers. */
const answers = [true, true, true]
beforeAll(async () => {
  const servers = stack.use(await startRedisServers(3))
  await writeDeadLetters(servers.urls, LETTERS, (node, numbers) => {
    // Neighbours change places, and every third letter is missing on another node.
    const swapped = numbers.map((_, at) => numbers[at ^ (node + 1)] ?? numbers[at]!)
    return [...new Set(swapped)].filter((n) => n % 3 !== node)
  })
  clients = servers.urls.map((url) => new Redis(url))
  stack.defer(() => {
    for (const client of clients) client.disconnect()
  })
})

const auditLog = createRedisAuditLog({
  clients: () => clients.map((client, node) => (answers[node] ? client : undefined)),
  deadlineMs: 5_000,
  clock: systemClock,
})

async function page(before: AuditPlace, limit: number) {
  const read = await auditLog.read('dead-letters', limit + 1, before)
  if (read.kind !== 'entries') throw new Error(read.kind)
  return pageOf(read.entries, limit)
}

const allIds = Array.from({ length: LETTERS }, (_, at) => deadLetterId(at + 1))

test('every letter is on one page, oldest first, whatever the order in which nodes wrote them', async () => {
  const pages: string[][] = []
  let cursor: string | undefined
  do {
    const one = await page(cursor === undefined ? NEWEST : placeOf(cursor)!, PAGE)
    pages.push(one.entries.map(({ id }) => id))
    cursor = one.cursor
  } while (cursor !== undefined)
  expect(pages.map(({ length }) => length)).toEqual([1_000, 1_000, 300])
  expect(pages.toReversed().flat()).toEqual(allIds)
})

test.each([0, 1, 2])(
  'a page goes on where the one before ended, also without node %i, which answered that one',
  async (away) => {
    const first = await page(NEWEST, 7)
    answers[away] = false
    const second = await page(placeOf(first.cursor ?? '')!, 7)
    answers[away] = true
    expect([...second.entries, ...first.entries].map(({ id }) => id)).toEqual(allIds.slice(-14))
  },
)

test('a node is asked for a thousand entries at a time, and for no more than it keeps', async () => {
  const calls = async () =>
    Number(/cmdstat_xrevrange:calls=(\d+)/.exec(await clients[0]!.info('commandstats'))?.[1])
  const before = await calls()
  await page(NEWEST, 10)
  // Of the 2,300 letters the node lacks a third.
  expect((await calls()) - before).toBe(2)
})

test('without a majority there is no page', async () => {
  answers.fill(false, 1)
  expect(await auditLog.read('dead-letters', 10, NEWEST)).toEqual({
    kind: 'unavailable',
    answered: 1,
    required: 2,
  })
  answers.fill(true)
})
