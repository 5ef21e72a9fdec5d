import { describe, expect, test } from 'vitest'
import type { CoreEvent } from '../../src/core/events.ts'
import { createLog, logEvents } from '../../src/observe/log.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { postedJson } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, startSidecar } from '../support/sidecar.ts'

const KEY = `dedup:shop:prod:v1:${'ab'.repeat(32)}`
const LOCK_ID = 'abababababababab-5'

function written(options: { decisionsPerSecond?: number; level?: string } = {}) {
  const lines: Record<string, unknown>[] = []
  const target = { write: (line: string) => void lines.push(JSON.parse(line)) }
  const onLost = () => {}
  const log = createLog({ level: options.level ?? 'info', instance: 'pod-1', target, onLost })
  let nowMs = 0
  let dropped = 0
  const publish = logEvents(log, {
    nodeCount: 5,
    decisionsPerSecond: options.decisionsPerSecond ?? 100,
    monoMs: () => nowMs,
    onDropped: () => {
      dropped += 1
    },
    trace: () => ({ traceId: 't'.repeat(32), spanId: 's'.repeat(16) }),
  })
  return {
    lines,
    publish,
    dropped: () => dropped,
    advance: (ms: number) => {
      nowMs += ms
    },
  }
}

const claimed: CoreEvent = {
  kind: 'claim_ended',
  result: 'granted',
  recordKey: KEY,
  rounds: 1,
  durationMs: 2,
  answered: 4,
  token: 5,
}
const ended = {
  kind: 'lease_ended',
  recordKey: KEY,
  token: 5,
  attempt: 1,
  fingerprint: 'f',
  heldMs: 700,
  remainingMs: 29_000.4,
} as const
const decided: CoreEvent = {
  kind: 'decided',
  entrypoint: 'proxy',
  decision: 'acquired',
  detail: 'created',
  route: 'payments',
  status: 201,
  durationMs: 12.345,
  keyHash: 'ab'.repeat(32),
  tenant: 'shop',
  lockId: LOCK_ID,
  token: 5,
  attempt: 1,
}

describe('fields', () => {
  test('a decision has every agreed field', () => {
    const { lines, publish } = written()
    publish(claimed)
    publish({ ...ended, ended: 'completed' })
    publish(decided)
    expect(lines).toEqual([
      {
        level: 'info',
        time: expect.any(String),
        client_id: 'pod-1',
        event: 'decided',
        entrypoint: 'proxy',
        route: 'payments',
        status: 201,
        duration_ms: 12.35,
        tenant: 'shop',
        idempotency_key: 'abababababababab',
        key_hash: 'abababababababab',
        lock_id: LOCK_ID,
        acquired: true,
        fencing_token: 5,
        attempt: 1,
        quorum_nodes: '4/5',
        nodes_reached: 4,
        lease_remaining_ms: 29_000,
        trace_id: 't'.repeat(32),
        span_id: 's'.repeat(16),
        message: 'acquired: created',
      },
    ])
  })

  test.each<[why: string, event: CoreEvent, line: Record<string, unknown>]>([
    [
      'a duplicate did not acquire',
      {
        kind: 'decided',
        entrypoint: 'proxy',
        decision: 'duplicate_completed',
        detail: 'replayed',
        route: 'r',
        status: 201,
        durationMs: 1,
        keyHash: 'cd'.repeat(32),
      },
      { level: 'info', acquired: false, idempotency_key: 'cdcdcdcdcdcdcdcd' },
    ],
    [
      'the raw key is written only when the event carries it',
      { ...decided, idempotencyKey: 'order-17' } as CoreEvent,
      { idempotency_key: 'order-17' },
    ],
    [
      'a request without an answer of the application says why',
      { ...decided, detail: 'application-unreachable', because: 'ENOTFOUND' } as CoreEvent,
      { message: 'acquired: application-unreachable', error: 'ENOTFOUND' },
    ],
    [
      'a renewal that failed says so',
      { kind: 'lease_renewed', recordKey: KEY, token: 5, result: 'lost', durationMs: 3 },
      { level: 'warn', renewal_failed: true, idempotency_key: 'abababababababab' },
    ],
    [
      'a lease that ended early names its lock',
      { ...ended, ended: 'expired' },
      { level: 'warn', lock_id: LOCK_ID, lease_remaining_ms: 29_000.4 },
    ],
    [
      'a damaged outcome is an error',
      { kind: 'outcome_damaged', recordKey: KEY, reason: 'digest' },
      { level: 'error', error: 'digest' },
    ],
  ])('%s', (_, event, line) => {
    const { lines, publish } = written()
    publish(event)
    expect(lines).toMatchObject([line])
  })
})

describe('under load', () => {
  test('decisions above the limit per second are counted, and the next line says how many', () => {
    const { lines, publish, dropped, advance } = written({ decisionsPerSecond: 3 })
    for (let i = 0; i < 10; i += 1) publish(decided)
    expect([lines.length, dropped()]).toEqual([3, 7])
    advance(1_000)
    publish(decided)
    expect(lines.slice(3)).toMatchObject([{ event: 'lines_dropped', dropped: 7 }, { event: 'decided' }])
  })

  test('errors are always written, and so are all lines but decisions', () => {
    const { lines, publish, dropped } = written({ decisionsPerSecond: 0 })
    publish({ ...decided, decision: 'quorum_unavailable', status: 503 } as CoreEvent)
    publish({ ...decided, decision: 'fail_open', status: 200 } as CoreEvent)
    publish({ kind: 'lease_renewed', recordKey: KEY, token: 5, result: 'lost', durationMs: 3 })
    publish(decided)
    expect([lines.length, dropped()]).toEqual([3, 1])
  })

  // Bug: each try was a line, every second or two for each node that was away, for as long as it was away.
  test('what stays away is a line when it goes and when it is back, and none each time it is tried', () => {
    const { lines, publish } = written()
    for (const kind of ['breaker_changed', 'quorum_breaker_changed'] as const) {
      const change = (from: 'closed' | 'open' | 'half_open', to: typeof from) =>
        publish({ kind, node: 'redis-1', from, to } as CoreEvent)
      change('closed', 'open')
      for (let tries = 0; tries < 10; tries += 1) {
        change('open', 'half_open')
        change('half_open', 'open')
      }
      change('half_open', 'closed')
    }
    expect(lines.map(({ event, to, level }) => [event, to, level])).toEqual([
      ['breaker_changed', 'open', 'warn'],
      ['breaker_changed', 'closed', 'info'],
      ['quorum_breaker_changed', 'open', 'error'],
      ['quorum_breaker_changed', 'closed', 'warn'],
    ])
  })

  test('an answer that is of no use is a line of its node now and then, and none that did not come', () => {
    const { lines, publish, advance } = written()
    const answered = (node: string, unreachable: 'error' | 'timeout' | 'refused', isAnswer: boolean) =>
      publish({
        kind: 'node_answered',
        node,
        command: 'claim',
        answer: 'unreachable',
        unreachable,
        answered: isAnswer,
        detail: `${unreachable}: damaged record`,
        durationMs: 1,
      })
    answered('redis-0', 'error', false)
    answered('redis-0', 'timeout', false)
    answered('redis-0', 'refused', true)
    for (const node of ['redis-1', 'redis-1', 'redis-2', 'redis-1']) answered(node, 'error', true)
    advance(10_000)
    answered('redis-1', 'error', true)
    expect(lines.map(({ level, node, error }) => [level, node, error])).toEqual(
      ['redis-1', 'redis-2', 'redis-1'].map((node) => ['warn', node, 'error: damaged record']),
    )
  })

  test('lines hidden by the level do not count as dropped', () => {
    const { lines, publish, dropped } = written({ decisionsPerSecond: 0, level: 'warn' })
    publish(decided)
    expect([lines.length, dropped()]).toEqual([0, 0])
  })
})

describe('canaries', () => {
  const CANARY = 'canary-4711'
  const provoke = async (env: Record<string, string>) => {
    await using servers = await startRedisServers(3, { founded: true })
    await using application = await startCountingApplication()
    // The whole log from its first line: a lost quorum writes more than is kept.
    let output = ''
    const settings = { ...between(servers, application), FENCEPOST_LOG_LEVEL: 'trace', ...env }
    await using sidecar = await startSidecar(settings, {
      onOutput: (text) => {
        output += text
      },
    })
    const send = (body: string, headers: Record<string, string> = {}, path = `/p/${CANARY}?q=${CANARY}`) =>
      fetch(`${sidecar.proxy}${path}`, {
        method: 'POST',
        headers: {
          'idempotency-key': `key-${CANARY}`,
          authorization: `Bearer ${CANARY}`,
          cookie: `session=${CANARY}`,
          ...headers,
        },
        body,
      })
    await send(`body-${CANARY}`)
    await send(`body-${CANARY}`)
    await send(`another body-${CANARY}`)
    await send('{"broken', { 'content-type': `application/json; x=${CANARY}`, 'content-encoding': CANARY })
    await send('x', { 'idempotency-key': `${CANARY}${'x'.repeat(2_000)}` })
    await servers.kill(0)
    await servers.kill(1)
    await send('unknowable', { 'idempotency-key': `other-${CANARY}` })
    await postedJson(`${sidecar.api}/v1/reservations`, { session_id: CANARY, reserved_value: CANARY })
    await sidecar.process.end()
    return output
  }

  test('keys, principals, cookies, bodies, paths and queries are in no line, at any level', async () => {
    const output = await provoke({})
    expect(output).toContain('"event":"decided"')
    expect(output.split('\n').filter((line) => line.includes(CANARY))).toEqual([])
  })

  test('with raw keys enabled the key is written, and no other secret', async () => {
    const output = await provoke({ FENCEPOST_LOG_RAW_KEYS: 'on' })
    const lines = output.split('\n').filter((line) => line.includes(CANARY))
    expect(lines.length).toBeGreaterThan(0)
    for (const line of lines) {
      const { idempotency_key: key, ...rest } = JSON.parse(line) as Record<string, unknown>
      expect(key).toContain(CANARY)
      expect(JSON.stringify(rest)).not.toContain(CANARY)
    }
  })
})
