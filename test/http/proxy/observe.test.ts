/** Mode observe: every request is executed as it came, and what protecting it would have done is counted. */
import { expect, onTestFinished, test } from 'vitest'
import { observed } from '../../../src/config/builtin-policy.ts'
import type { ObservedEvent } from '../../../src/core/decision.ts'
import { startApplication } from '../../support/application.ts'
import { startCountingApplication } from '../../support/counting-application.ts'
import { eventually } from '../../support/eventually.ts'
import { hold, route, startProxy, type TestProxy, type TestProxyOptions } from '../../support/proxy.ts'

const OBSERVED = observed(route(), route({ mode: 'content' }))

async function start(options: TestProxyOptions = {}) {
  const application = await startCountingApplication()
  const proxy = await startProxy(application.url, { routes: [OBSERVED], ...options })
  onTestFinished(async () => {
    await proxy[Symbol.asyncDispose]()
    await application[Symbol.asyncDispose]()
  })
  return { application, proxy }
}

/** What was observed, in order, once there are as many. */
async function seen({ events }: TestProxy, count: number): Promise<readonly string[]> {
  const all = () => events.filter((event): event is ObservedEvent => event.kind === 'observed')
  await eventually(`${count} observations`, () => all().length === count)
  return all().map(({ by, would, because }) => `${by ?? 'none'}: ${would} (${because})`)
}

test('a duplicate is executed, and would have been replayed: with another answer, after so long', async () => {
  const { application, proxy } = await start()
  const first = await proxy.post('k-1')
  expect([first.status, await first.json()]).toMatchObject([201, { execution: 1 }])
  expect(await seen(proxy, 1)).toEqual(['key: executed (created)'])
  const second = await proxy.post('k-1')
  expect([second.status, await second.json()]).toMatchObject([201, { execution: 2 }])
  expect(application.executions).toHaveLength(2)
  expect(await seen(proxy, 2)).toContain('key: replayed_other (replayed)')
  const event = proxy.events.findLast((one): one is ObservedEvent => one.kind === 'observed')
  expect(event?.ageMs).toBeGreaterThanOrEqual(0)
  expect(event?.ageMs).toBeLessThan(60_000)
})

test('neither the request nor the answer is changed, but for the status header of what is passed', async () => {
  const { application, proxy } = await start()
  const answer = await proxy.post('k-1', '{"a":1}')
  expect(answer.headers.get('idempotency-status')).toBe('bypassed')
  const { headers = {}, body } = application.executions[0] ?? {}
  expect(body).toBe('{"a":1}')
  expect(headers['idempotency-key']).toBe('k-1')
  expect(Object.keys(headers).filter((name) => name.startsWith('fencepost-'))).toEqual([])
})

test('without a key the content is observed, and another content is another request', async () => {
  const { proxy } = await start()
  for (const [at, body] of ['{"a":1}', '{"a":2}', '{"a":1}'].entries()) {
    await (await proxy.post(undefined, body)).text()
    await seen(proxy, at + 1)
  }
  expect(await seen(proxy, 3)).toEqual([
    'content: executed (created)',
    'content: executed (created)',
    'content: replayed_other (replayed)',
  ])
})

test('a key with another content would have been refused, a concurrent duplicate would have waited', async () => {
  const { application, proxy } = await start()
  application.hold()
  const first = proxy.post('k-1')
  await application.arrived(1)
  await eventually('the claim', () => proxy.events.some(({ kind }) => kind === 'claim_ended'))
  const second = proxy.post('k-1')
  await application.arrived(2)
  expect(await seen(proxy, 1)).toEqual(['key: waited (in_progress)'])
  application.letGo()
  await Promise.all([first, second])
  await seen(proxy, 2)
  await proxy.post('k-1', '{"another":1}')
  expect(await seen(proxy, 3)).toContain('key: refused (mismatch)')
  expect(application.executions).toHaveLength(3)
})

test('an equal answer is said to be the same, whether it comes at once or in parts', async () => {
  const parts = hold()
  await using application = await startApplication(async (_, response, execution) => {
    response.writeHead(200, { 'content-type': 'text/plain' })
    if (execution === 1) return void response.end('all of it')
    response.write('all ')
    await parts.released
    response.end('of it')
  })
  await using proxy = await startProxy(application.origin, { routes: [OBSERVED] })
  await (await proxy.post('k-1')).text()
  await seen(proxy, 1)
  const second = await proxy.post('k-1')
  const reader = second.body?.getReader()
  // The first part is at the client before the application has the rest.
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('all ')
  parts.release()
  while ((await reader?.read())?.done === false);
  expect(await seen(proxy, 2)).toContain('key: replayed (replayed)')
})

/** Bug: the header was taken out before the answer was looked at. */
test.each([
  ['store', 503, 'replayed_other (replayed)'],
  ['release', 201, 'executed (released)'],
  ['hold', 201, 'waited (in_progress)'],
])(
  'what the application itself says came of it counts, and reaches no client: %s',
  async (verdict, status, next) => {
    await using application = await startApplication((_, response, execution) => {
      response.writeHead(status, { 'Fencepost-Outcome': verdict }).end(String(execution))
    })
    await using proxy = await startProxy(application.origin, { routes: [OBSERVED] })
    for (const at of [1, 2]) {
      const answer = await proxy.post('k-1')
      expect([answer.status, answer.headers.has('fencepost-outcome')]).toEqual([status, false])
      await answer.text()
      await seen(proxy, at)
    }
    expect((await seen(proxy, 2)).at(-1)).toBe(`key: ${next}`)
  },
)

test('a refusal that a route would make is none: a key that is missing or invalid, a body that is too long', async () => {
  const strict = route({
    required: true,
    bodyLimitBytes: 10,
    key: { headers: ['idempotency-key'], parts: [], strict: false, minLength: 5, format: 'any' },
  })
  const { application, proxy } = await start({ routes: [observed(strict)] })
  for (const [key, body] of [
    [undefined, '{}'],
    ['k', '{}'],
    ['long-enough', '{"longer":"than that"}'],
  ] as const)
    expect((await proxy.post(key, body)).status).toBe(201)
  expect((await seen(proxy, 3)).toSorted()).toEqual([
    'none: refused (body-too-large)',
    'none: refused (key-invalid)',
    'none: refused (key-missing)',
  ])
  expect(application.executions.map(({ body }) => body)).toEqual(['{}', '{}', '{"longer":"than that"}'])
})

test('without nodes every request is executed, at once, and is counted as unknown', async () => {
  const { application, proxy } = await start()
  for (const node of proxy.nodes) node.stop()
  expect((await proxy.post('k-1')).status).toBe(201)
  expect((await proxy.post('k-1')).status).toBe(201)
  expect(await seen(proxy, 2)).toEqual(['key: unknown (unavailable)', 'key: unknown (unavailable)'])
  expect(application.executions).toHaveLength(2)
})

test('with no room for its body a request is passed on, and was not seen', async () => {
  const { proxy } = await start({ bodyMemoryBytes: 4 })
  expect((await proxy.post('k-1', '{"a":"long"}')).status).toBe(201)
  expect(await seen(proxy, 1)).toEqual(['none: unknown (not-seen)'])
  expect(proxy.events.some(({ kind }) => kind === 'body_memory_full')).toBe(false)
})

test('enforcing replays nothing that was observed', async () => {
  const { application, proxy } = await start()
  await proxy.post('k-1')
  await seen(proxy, 1)
  await using enforcing = await startProxy(application.url, { nodes: proxy.nodes })
  const answer = await enforcing.post('k-1')
  expect(answer.headers.get('idempotency-status')).toBe('created')
  expect((await enforcing.post('k-1')).headers.get('idempotency-status')).toBe('replayed')
})

test('a refusal of the application is kept as the route would: the next try would be executed', async () => {
  await using application = await startApplication((_, response, execution) => {
    response.writeHead(execution === 1 ? 503 : 201).end()
  })
  await using proxy = await startProxy(application.origin, { routes: [OBSERVED] })
  await proxy.post('k-1')
  await seen(proxy, 1)
  await proxy.post('k-1')
  expect(await seen(proxy, 2)).toEqual(['key: executed (released)', 'key: executed (created)'])
})
