/** The overview as server-sent events, on a clock that the test moves: how often, for how many, and until when. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { STREAMS_MAX } from '../../../src/http/operator/overview-stream.ts'
import { startOperatorApi } from '../../support/operator-api.ts'
import { OPERATE_TOKEN, VIEW_TOKEN } from '../../support/operator-caller.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

let clock: VirtualClock
let api: Awaited<ReturnType<typeof startOperatorApi>>
beforeEach(async () => {
  clock = new VirtualClock()
  api = await startOperatorApi({ clock, overview: { inFlight: 7 } })
})
afterEach(() => api[Symbol.asyncDispose]())

async function reader(token = OPERATE_TOKEN) {
  const over = new AbortController()
  const response = await fetch(`${api.origin}/v1/operator/overview/events`, {
    headers: { authorization: `Bearer ${token}` },
    signal: over.signal,
  })
  const events = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  return {
    response,
    leave: () => over.abort(),
    /** The next event; undefined at the end of the stream. */
    next: async () => {
      const { done, value = '' } = await events.read()
      if (done) return undefined
      expect(value).toMatch(/^data: .*\n\n$/)
      return JSON.parse(value.slice('data: '.length))
    },
  }
}

test('the first event comes at once, and one a second after it', async () => {
  const one = await reader()
  expect(one.response.headers.get('content-type')).toBe('text/event-stream')
  expect(one.response.headers.get('cache-control')).toBe('no-store')
  expect(await one.next()).toMatchObject({ instance: 'sidecar-1', requests: { in_flight: 7 } })
  const second = one.next()
  await clock.advance(1_000)
  expect((await second).at).toBe('2026-01-01T00:00:01.000Z')
  one.leave()
})

test('without a token there is no stream, and with one only its head has it', async () => {
  for (const path of ['', `?token=${OPERATE_TOKEN}`, `?access_token=${OPERATE_TOKEN}`])
    expect([path, (await fetch(`${api.origin}/v1/operator/overview/events${path}`)).status]).toEqual([
      path,
      401,
    ])
})

test(`${STREAMS_MAX} readers are the limit, and the refusal says the number`, async () => {
  const readers = await Promise.all(Array.from({ length: STREAMS_MAX }, () => reader()))
  const refused = await reader()
  expect([refused.response.status, refused.response.headers.get('content-type')]).toEqual([
    503,
    'application/problem+json',
  ])
  for (const one of readers) one.leave()
})

test('a stream ends when its token is taken away, and others go on', async () => {
  const [ann, bob] = [await reader(VIEW_TOKEN), await reader()]
  await Promise.all([ann.next(), bob.next()])
  api.operators.shift()
  const [gone, goes] = [ann.next(), bob.next()]
  await clock.advance(1_000)
  expect([await gone, (await goes)?.instance]).toEqual([undefined, 'sidecar-1'])
  bob.leave()
})

test('a stream ends after 15 minutes', async () => {
  const one = await reader()
  await one.next()
  let events = 0
  for (;;) {
    const next = one.next()
    await clock.advance(1_000)
    if ((await next) === undefined) break
    events += 1
  }
  expect(events).toBe(15 * 60 - 1)
})

test('a sidecar that drains ends the streams, so that they do not keep it', async () => {
  const one = await reader()
  await one.next()
  const closed = api.api.close(60_000)
  expect(await one.next()).toBeUndefined()
  await closed
})
