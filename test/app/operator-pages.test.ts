/**
 * Lists of the operator API over more records than one page has, on real Redis nodes in two groups: no record is left
 * out and none is on two pages, and the history of a key is found in whichever group keeps it.
 */
import { createHash } from 'node:crypto'
import { Redis } from 'ioredis'
import { beforeAll, expect, test } from 'vitest'
import { placementOf } from '../../src/core/nodes/groups.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { operatorCaller, operatorTokensFile } from '../support/operator-caller.ts'
import { postedJson } from '../support/post.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

const stack = stackOfTests()
let servers: RedisServers
let sidecar: Sidecar
let operator: ReturnType<typeof operatorCaller>
let groups: readonly (readonly Redis[])[]

beforeAll(async () => {
  servers = stack.use(await startRedisServers(6))
  const tokens = stack.use(operatorTokensFile())
  const [one, two] = [servers.urls.slice(0, 3), servers.urls.slice(3)]
  groups = [one, two].map((urls) => urls.map((url) => new Redis(url)))
  stack.defer(() => {
    for (const client of groups.flat()) client.disconnect()
  })
  sidecar = stack.use(
    await startSidecar(
      {
        ...PATIENT,
        FENCEPOST_REDIS_NODES: `one=${one.join()};two=${two.join()}`,
        FENCEPOST_PROXY_LISTEN: 'off',
        FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:0',
        FENCEPOST_OPERATOR_TOKENS_FILE: tokens.path,
        FENCEPOST_SWEEP_INTERVAL: '1h',
      },
      { startWithinMs: 60_000 },
    ),
  )
  operator = operatorCaller(sidecar.operator)
})

async function reserve(value: string, lease: string): Promise<string> {
  await eventually(`${value} is reserved`, async () => {
    const { status } = await postedJson(`${sidecar.api}/v1/reservations`, {
      session_id: 's',
      reserved_value: value,
      lease,
    })
    return status === 201
  })
  const { body } = await operator.find({ reserved_value: value })
  return body.records[0].record
}

/** All pages of a list, each with the keys of its records. */
async function pagesOf(state: string): Promise<readonly (readonly string[])[]> {
  const pages: string[][] = []
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const { status, body } = await operator.call(`/records?state=${state}${cursor && `&cursor=${cursor}`}`)
    expect([status, body.detail]).toEqual([200, undefined])
    pages.push(body.records.map(({ record }: { record: string }) => record))
    cursor = body.cursor
  }
  return pages
}

test('a list of 900 records over two groups has every record once, at most 200 a page', async () => {
  const record = await reserve('one', '60s')
  const groupOfKey = placementOf(['one', 'two'])
  const copies = Array.from({ length: 900 }, (_, at) => {
    const hash = createHash('sha256').update(`copy ${at}`).digest('hex')
    return `${record.slice(0, -64)}${hash}`
  })
  // What a record says does not depend on its key: copies stand for as many claims.
  const bytes = await groups[groupOfKey(record)]![0]!.getBuffer(record)
  for (const [group, nodes] of groups.entries())
    for (const node of nodes) {
      const pipeline = node.pipeline()
      for (const copy of copies) if (groupOfKey(copy) === group) pipeline.set(copy, bytes!, 'PX', 3_600_000)
      await pipeline.exec()
    }
  const pages = await pagesOf('live')
  expect(Math.max(...pages.map((page) => page.length))).toBeLessThanOrEqual(200)
  expect([...new Set(pages.flat())].sort()).toEqual([record, ...copies].sort())
})

test('a walk asks each node in steps of a thousand keys, and a call for at most 50,000 of them', async () => {
  const [nodes] = groups as readonly [readonly Redis[]]
  // Keys that are no records cost a walk the same.
  const fill = "for at = 1, 60000 do redis.call('SET', 'filler:' .. at, '') end"
  await Promise.all(nodes.map((node) => node.eval(fill, 0)))
  const all = groups.flat()
  await onEach(all, ['CONFIG', 'SET', 'slowlog-max-len', '100000', 'slowlog-log-slower-than', '0'])
  await onEach(all, ['SLOWLOG', 'RESET'])
  try {
    const reference = 'f'.repeat(16)
    const steps: number[] = []
    let cursor: string | undefined
    do {
      const before = await scansOn(all)
      const { status, body } = await operator.find(
        cursor === undefined ? { reference } : { reference, cursor },
      )
      cursor = body.cursor
      // The last call is at the end of all nodes, and none has it.
      expect(status).toBe(cursor === undefined ? 404 : 200)
      steps.push((await scansOn(all)) - before)
    } while (cursor !== undefined)
    // Two nodes of three are a majority, with 60,000 keys and more each.
    expect(steps.slice(0, 2)).toEqual([50, 50])
    expect(Math.max(...steps)).toBe(50)
    // Every command is a slow one since: what the nodes were sent.
    const logs = (await onEach(all, ['SLOWLOG', 'GET', '-1'])) as readonly (readonly unknown[])[][]
    const sent = logs.flat().map((entry) => entry[3] as readonly string[])
    const scans = sent.filter(([command = '']) => command.toLowerCase() === 'scan')
    expect(scans.length).toBe(steps.reduce((sum, one) => sum + one, 0))
    expect(new Set(scans.map((args) => args.slice(-2).join(' ').toLowerCase()))).toEqual(
      new Set(['count 1000']),
    )
    expect(new Set(sent.map(([command = '']) => command.toLowerCase()))).not.toContain('keys')
  } finally {
    await onEach(all, ['CONFIG', 'SET', 'slowlog-log-slower-than', '10000'])
    const clear = "for at = 1, 60000 do redis.call('DEL', 'filler:' .. at) end"
    await Promise.all(nodes.map((node) => node.eval(clear, 0)))
  }
})

const onEach = (nodes: readonly Redis[], [command, ...args]: readonly [string, ...string[]]) =>
  Promise.all(nodes.map((node) => node.call(command, ...args)))

/** How often they were asked for a part of their keys so far. */
async function scansOn(nodes: readonly Redis[]): Promise<number> {
  const told = await Promise.all(nodes.map((node) => node.info('commandstats')))
  return told.reduce((sum, text) => sum + Number(/cmdstat_scan:calls=(\d+)/.exec(text)?.[1] ?? 0), 0)
}

test('a decision on a record of each group is in the history of that record alone', async () => {
  const names = Array.from({ length: 8 }, (_, at) => `of a group ${at}`)
  const records = await Promise.all(names.map((name) => reserve(name, '60s')))
  expect(new Set(records.map(placementOf(['one', 'two'])))).toEqual(new Set([0, 1]))
  for (const record of records) {
    const { status } = await operator.decide('end', record, { even_though: 'live' })
    expect(status).toBe(200)
  }
  for (const record of records) {
    const { history, state } = await operator.show(record)
    expect(state).toBe('expired')
    expect(history.map(({ act, step, record: of }: Record<string, string>) => [act, step, of])).toEqual([
      ['end', 'begun', record],
      ['end', 'done', record],
    ])
  }
})
