/** Near misses: what two executed requests differed in is named, by name alone. Real proxy, real application. */
import { expect, onTestFinished, test } from 'vitest'
import { createObservations } from '../../../src/core/health/observations.ts'
import { createNearMisses } from '../../../src/core/request/near-misses.ts'
import { startApplication } from '../../support/application.ts'
import { route, startProxy } from '../../support/proxy.ts'

const SECRET_VALUES = ['try-1', 'try-2', 'bob-secret', 'alice-secret']

async function start(mode: 'content' | 'header' = 'content') {
  const application = await startApplication()
  const proxy = await startProxy(application.origin, { routes: [route({ name: 'payments', mode })] })
  onTestFinished(async () => {
    await proxy[Symbol.asyncDispose]()
    await application[Symbol.asyncDispose]()
  })
  const send = async (headers: Record<string, string>, key?: string) =>
    (await proxy.post(key, '{"amount":1}', headers)).headers.get('idempotency-status')
  const misses = () => proxy.events.flatMap((event) => (event.kind === 'near_miss' ? [event.names] : []))
  const view = () => {
    const observations = createObservations()
    for (const event of proxy.events) if (event.kind === 'near_miss') observations.add(event)
    return observations.view().near_misses
  }
  return { send, misses, view }
}

test('two executions that differ in one header are a pair, and the sentence says what to ignore', async () => {
  const { send, misses, view } = await start()
  expect(await send({ 'x-turn': 'try-1' })).toBe('created')
  expect(await send({ 'x-turn': 'try-2' })).toBe('created')
  expect(await send({ 'x-turn': 'try-3' })).toBe('created')
  expect(misses()).toEqual([['x-turn'], ['x-turn']])
  expect(view().map(({ says }) => says)).toEqual([
    '2 pairs on `payments` differed only in `x-turn`: if that changes between tries, ignore it: `fingerprint: { ignore: [x-turn] }`',
  ])
  for (const value of SECRET_VALUES) expect(JSON.stringify(view())).not.toContain(value)
})

test('a header that one of them lacks is a difference, and a cookie has its own name', async () => {
  const { send, misses } = await start()
  await send({ cookie: 'sid=1; theme=dark' })
  await send({ cookie: 'sid=1; theme=light', 'x-more': '1' })
  expect(misses()).toEqual([['cookie:theme', 'x-more']])
})

test('who asks may be two users: nothing proposes to ignore it', async () => {
  const { send, view } = await start()
  await send({ authorization: 'Bearer alice-secret' })
  await send({ authorization: 'Bearer bob-secret' })
  await send({ authorization: 'Bearer bob-secret', cookie: 'sid=1' })
  expect(view().map(({ says }) => says.replace(/:.*/, ''))).toHaveLength(2)
  for (const { says } of view()) expect(says).toMatch(/may be two users.*$/)
  for (const { says } of view()) expect(says).not.toContain('fingerprint: { ignore')
})

test.each<[what: string, first: Record<string, string>, second: Record<string, string>]>([
  ['a duplicate that is replayed', { 'x-a': '1' }, { 'x-a': '1' }],
  ['what never counts', { 'user-agent': 'a' }, { 'user-agent': 'b' }],
  ['more than three differences', {}, { 'x-a': '1', 'x-b': '1', 'x-c': '1', 'x-d': '1' }],
])('%s is no near miss', async (_, first, second) => {
  const { send, misses } = await start()
  await send(first)
  await send(second)
  expect(misses()).toEqual([])
})

test('with a key nothing is remembered', async () => {
  const { send, misses } = await start('header')
  await send({ 'x-turn': 'try-1' }, 'k-1')
  await send({ 'x-turn': 'try-2' }, 'k-2')
  expect(misses()).toEqual([])
})

test('a minute later it is forgotten, and no more than a thousand contents are known', () => {
  const nearMisses = createNearMisses('secret')
  const executed = (body: string, turn: string, monoMs: number) =>
    nearMisses.executed(
      route(),
      {
        printed: { components: [{ name: 'body_sha256', byteText: body }] },
        headers: [['x-turn', turn]],
        principal: 'anonymous',
      },
      monoMs,
    )
  expect(executed('a', '1', 0)).toBeUndefined()
  expect(executed('a', '2', 59_999)).toEqual(['x-turn'])
  expect(executed('a', '3', 120_000)).toBeUndefined()
  for (let other = 0; other < 1_000; other += 1) executed(`b${other}`, '1', 120_001)
  expect(executed('a', '4', 120_002)).toBeUndefined()
})

test('of names that clients make up a hundred are counted, and twenty shown', () => {
  const observations = createObservations()
  for (let at = 0; at < 500; at += 1)
    observations.add({ kind: 'near_miss', route: 'payments', names: [`x-${at}`] })
  observations.add({ kind: 'near_miss', route: 'payments', names: ['x-1'] })
  const { near_misses: all } = observations.view()
  expect(all).toHaveLength(20)
  expect(all[0]).toMatchObject({ names: ['x-1'], count: 2 })
})
