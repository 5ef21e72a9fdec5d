/** The overview and single records as server-sent events, on a clock that the test moves: how often, for whom, and until when. */
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { Compile } from 'typebox/compile'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { OperatorToken } from '../../../src/core/operator/operator-tokens.ts'
import { OPERATOR_CALLS } from '../../../src/http/operator/calls.ts'
import {
  createEventStreams,
  STREAMS_MAX,
  UNREAD_LOOKS_MAX,
} from '../../../src/http/operator/event-streams.ts'
import { eventually } from '../../support/eventually.ts'
import { listening } from '../../support/listening.ts'
import { startNginx } from '../../support/nginx.ts'
import { startOperatorApi } from '../../support/operator-api.ts'
import { OPERATE_TOKEN, VIEW_TOKEN } from '../../support/operator-caller.ts'
import { keyOf } from '../../support/redis-cluster.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

let clock: VirtualClock
let api: Awaited<ReturnType<typeof startOperatorApi>>
beforeEach(async () => {
  clock = new VirtualClock()
  api = await startOperatorApi({ clock, overview: { inFlight: 7 } })
})
afterEach(() => api[Symbol.asyncDispose]())

const OVERVIEW = '/overview/events'
const eventsOf = (record: string) => `/records/${encodeURIComponent(record)}/events`

async function reader(path: string, token = OPERATE_TOKEN, origin = api.origin) {
  const over = new AbortController()
  const response = await fetch(`${origin}/v1/operator${path}`, {
    headers: { authorization: `Bearer ${token}` },
    signal: over.signal,
  })
  const chunks = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  /** The next event; `still` where a look found nothing new, and undefined at the end of the stream. */
  const next = async () => {
    while (!rest.includes('\n\n')) {
      const { done, value = '' } = await chunks.read()
      if (done) return undefined
      rest += value
    }
    const [frame = '', ...more] = rest.split('\n\n')
    rest = more.join('\n\n')
    if (frame === ':') return 'still' as const
    expect(frame).toMatch(/^data: [^\n]*$/)
    return JSON.parse(frame.slice('data: '.length))
  }
  return {
    response,
    leave: () => over.abort(),
    next,
    /** What the next look brings. */
    after: async (ms: number) => {
      const coming = next()
      await clock.advance(ms)
      return coming
    },
  }
}

describe.each([
  ['the overview', OVERVIEW, 1_000],
  ['a record', eventsOf(keyOf('watched')), 2_000],
] as const)('%s', (_, path, everyMs) => {
  beforeEach(() => api.claim('watched', 3_600_000))

  test(`the first event comes at once, and one ${everyMs} ms after it`, async () => {
    const one = await reader(path)
    expect(one.response.headers.get('content-type')).toBe('text/event-stream')
    expect(one.response.headers.get('cache-control')).toBe('no-store')
    expect(one.response.headers.get('x-content-type-options')).toBe('nosniff')
    const [first, second] = [await one.next(), await one.after(everyMs)]
    expect([typeof first, typeof second]).toEqual(['object', 'object'])
    expect(second).not.toEqual(first)
    one.leave()
  })

  // Bug: nginx, as behind the Ingress of the chart, kept each event until the next one came.
  test('an event comes through nginx as soon as it is sent', async () => {
    await using proxy = await startNginx(api.origin)
    const one = await reader(path, OPERATE_TOKEN, proxy.origin)
    const [first, second] = [await one.next(), await one.after(everyMs)]
    expect([typeof first, typeof second]).toEqual(['object', 'object'])
    one.leave()
  })

  test('without a token there is no stream, and with one only its head has it', async () => {
    for (const query of ['', `?token=${OPERATE_TOKEN}`, `?access_token=${OPERATE_TOKEN}`])
      expect([query, (await fetch(`${api.origin}/v1/operator${path}${query}`)).status]).toEqual([query, 401])
  })

  test(`${STREAMS_MAX} readers are the limit, and the refusal says the number`, async () => {
    const readers = await Promise.all(Array.from({ length: STREAMS_MAX }, () => reader(path)))
    const refused = await fetch(`${api.origin}/v1/operator${path}`, {
      headers: { authorization: `Bearer ${OPERATE_TOKEN}` },
    })
    const problem = await refused.json()
    expect([refused.status, problem]).toEqual([
      503,
      expect.objectContaining({
        code: 'too-many-requests-in-flight',
        detail: expect.stringContaining(`${STREAMS_MAX} pages`),
      }),
    ])
    for (const one of readers) one.leave()
  })

  test('a stream ends when its token is taken away, and others go on', async () => {
    const [ann, bob] = [await reader(path, VIEW_TOKEN), await reader(path)]
    await Promise.all([ann.next(), bob.next()])
    api.operators.shift()
    const [gone, goes] = [ann.next(), bob.next()]
    await clock.advance(everyMs)
    expect([await gone, typeof (await goes)]).toEqual([undefined, 'object'])
    bob.leave()
  })

  test('a stream ends when its token gets another role: the page opens one with the rights of now', async () => {
    const bob = await reader(path)
    await bob.next()
    api.operators[1] = { name: 'bob', role: 'view', token: OPERATE_TOKEN }
    expect(await bob.after(everyMs)).toBeUndefined()
  })

  test('a stream ends after 15 minutes', async () => {
    const one = await reader(path)
    await one.next()
    let events = 0
    while ((await one.after(everyMs)) !== undefined) events += 1
    expect(events).toBe((15 * 60_000) / everyMs - 1)
  })

  test('a sidecar that drains ends the streams, so that they do not keep it', async () => {
    const one = await reader(path)
    await one.next()
    const closed = api.api.close(60_000)
    expect(await one.next()).toBeUndefined()
    await closed
  })

  test('nothing is looked at any more when the last reader has left', async () => {
    const [one, two] = [await reader(path), await reader(path)]
    await Promise.all([one.next(), two.next()])
    one.leave()
    two.leave()
    await eventually('the timer of the looks to be gone', () => clock.pendingTimers === 0)
  })
})

/** How often each record was read from the nodes, from now on. */
function readsCounted(): () => number {
  const [node] = api.nodes as unknown as { execute: (command: { kind: string }) => unknown }[]
  const execute = node!.execute.bind(node)
  let reads = 0
  node!.execute = (command) => {
    if (command.kind === 'read') reads += 1
    return execute(command)
  }
  return () => reads
}

describe('a record that is watched', () => {
  test('each event is what the call without /events answers, by its schema', async () => {
    const { key } = await api.claim('live')
    const one = await reader(eventsOf(key))
    const event = await one.next()
    expect(event).toEqual((await api.operator.call(`/records/${encodeURIComponent(key)}`)).body)
    expect(Compile(OPERATOR_CALLS.watchRecord.success).Errors(event)).toEqual([])
    one.leave()
  })

  test('a live claim is followed with its lease; what stands still is said in a comment alone', async () => {
    const lease = await api.claim('followed', 30_000)
    const one = await reader(eventsOf(lease.key))
    const leases = [await one.next(), await one.after(2_000)].map((shown) => shown.lease_remaining_ms)
    expect(leases[0] - leases[1]).toBe(2_000)
    await api.leases.complete(lease, { kind: 'tombstone', status: 201, completedAtWallMs: clock.wallMs() })
    expect(await one.after(2_000)).toMatchObject({ state: 'completed', outcome: { status: 201 } })
    for (let look = 0; look < 5; look += 1) expect(await one.after(2_000)).toBe('still')
    one.leave()
  })

  test('a decision of another operator is seen, with the entries that it leaves in the audit log', async () => {
    const { key } = await api.claim('decided')
    const one = await reader(eventsOf(key))
    expect(await one.next()).toMatchObject({ state: 'live', history: [] })
    const seen = one.next()
    await api.operator.decide('end', key, { even_though: 'live' })
    await clock.advance(2_000)
    expect(await seen).toMatchObject({ state: 'expired', history: [{ step: 'begun' }, { step: 'done' }] })
    one.leave()
  })

  test('an entry that comes without a change of the record is seen within 30 seconds', async () => {
    const recordKey = await api.expire('asked about')
    const one = await reader(eventsOf(recordKey))
    await one.next()
    const entry = { id: 'orphan:1', kind: 'orphan', atWallMs: 1, recordKey, fields: {} } as const
    expect(await one.after(2_000)).toBe('still')
    await api.auditLog.append('dead-letters', entry)
    const events = []
    for (let look = 0; look < 15; look += 1) events.push(await one.after(2_000))
    expect(events.filter((event) => event !== 'still')).toMatchObject([{ history: [{ kind: 'orphan' }] }])
    one.leave()
  })

  test('bodies are for the role operate, as in the call', async () => {
    const key = await api.complete('a secret body')
    for (const [token, bodies] of [
      [VIEW_TOKEN, 0],
      [OPERATE_TOKEN, 1],
    ] as const) {
      const one = await reader(eventsOf(key), token)
      const text = JSON.stringify(await one.next())
      expect([token, text.split('a secret body').length - 1]).toEqual([token, bodies])
      one.leave()
    }
  })

  test('readers of one role share the looks: one read every two seconds', async () => {
    const { key } = await api.claim('shared', 60_000)
    const readers = [await reader(eventsOf(key))]
    await readers[0]!.next()
    const reads = readsCounted()
    readers.push(await reader(eventsOf(key)), await reader(eventsOf(key)))
    await Promise.all(readers.slice(1).map((one) => one.next()))
    expect(reads()).toBe(0)
    const coming = readers.map((one) => one.next())
    await clock.advance(10_000)
    await Promise.all(coming)
    expect(reads()).toBe(5)
    for (const one of readers) one.leave()
  })

  test('the key of no request is not watched', async () => {
    const { status, body } = await api.operator.call(eventsOf('dedup::audit'))
    expect([status, body.code]).toEqual([400, 'request-invalid'])
  })
})

describe('a look', () => {
  const bob: OperatorToken = { name: 'bob', role: 'operate', token: OPERATE_TOKEN }

  /** A server of streams about one thing, and a client that reads nothing of its stream. */
  async function silentReader(look: () => string) {
    const failures: unknown[] = []
    const streams = createEventStreams({
      tokens: () => [bob],
      clock,
      onFailure: (cause) => failures.push(cause),
    })
    let opened = false
    let isOpen = false
    const server = createServer((_request, response) => {
      opened = true
      isOpen = streams.open(response, bob, 'thing', () => ({
        everyMs: 1_000,
        look: async () => ({ event: look }),
      }))
      response.once('close', () => {
        isOpen = false
      })
    })
    const at = await listening(server)
    const client = connect(at.port, '127.0.0.1')
    client.on('error', () => {}).pause()
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    onTestFinished(async () => {
      client.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })
    await eventually('the stream to be opened', () => opened)
    return { failures, isOpen: () => isOpen }
  }

  test(`a reader that takes nothing has one event waiting, and is cut after ${UNREAD_LOOKS_MAX} more looks`, async () => {
    let looks = 0
    let made = 0
    // More than the buffers of both ends of the connection take.
    const large = 'x'.repeat(16 * 1024 * 1024)
    const { isOpen } = await silentReader(() => {
      made += 1
      return large
    })
    while (isOpen() && looks < 50) {
      await clock.advance(1_000)
      looks += 1
    }
    expect(isOpen()).toBe(false)
    expect([looks, made]).toEqual([UNREAD_LOOKS_MAX + 1, UNREAD_LOOKS_MAX + 2])
  })

  test('one that fails ends its streams, and is told', async () => {
    const { failures, isOpen } = await silentReader(() => {
      throw new Error('out of order')
    })
    await eventually('the stream to be over', () => !isOpen())
    expect(failures).toEqual([new Error('out of order')])
  })
})
