// What somebody greps for at night: which line about a claim, a renewal, a duplicate, a takeover, a refusal or a
// completion has which of the agreed fields, field by field.
import { describe, expect, test } from 'vitest'
import type { CoreEvent } from '../../src/core/events.ts'
import { createLog, logEvents } from '../../src/observe/log.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { posted, postedJson } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

const HASH = 'ab'.repeat(32)
const KEY = `dedup:shop:prod:v1:${HASH}`
const DIGITS = HASH.slice(0, 16)
const LOCK_ID = `${DIGITS}-5`
const NODES = 5

const FIELDS = [
  'lock_id',
  'key_hash',
  'quorum_nodes',
  'nodes_reached',
  'lease_remaining_ms',
  'attempt',
  'tenant',
  'error',
] as const
type Field = (typeof FIELDS)[number]

/** As it is where the event has it; the table says where that is. */
const VALUES: Record<Field, unknown> = {
  lock_id: LOCK_ID,
  key_hash: DIGITS,
  quorum_nodes: '2/5',
  nodes_reached: 2,
  lease_remaining_ms: 700,
  attempt: 3,
  tenant: 'shop',
  error: '2 renewed, 3 timeout',
}

const claim = { recordKey: KEY, token: 5, attempt: 3 } as const
const counted = { answered: 2 } as const
const left = { remainingMs: 700 } as const
const recording = { ...claim, ...left, attempts: 4 } as const
const failed = {
  token: 5,
  attempt: 3,
  ...counted,
  ...left,
  replies: { renewed: 2, timeout: 3 },
} as const
const decided = {
  kind: 'decided',
  entrypoint: 'proxy',
  detail: 'a detail',
  route: 'payments',
  status: 409,
  durationMs: 1,
  keyHash: HASH,
  tenant: 'shop',
} as const
const claimEnded: CoreEvent = {
  kind: 'claim_ended',
  result: 'granted',
  rounds: 1,
  durationMs: 1,
  recordKey: KEY,
  token: 5,
  ...counted,
}
const leaseEnded = { kind: 'lease_ended', ...claim, ...left, fingerprint: 'f', heldMs: 1 } as const

/** Every kind of event that names a record, a request or a lost quorum: a new one is missed by the compiler, and then here. */
type OfARecord =
  | Extract<CoreEvent, { readonly recordKey: string }>['kind']
  | 'decided'
  | 'quorum_breaker_changed'
const KINDS: Readonly<Record<OfARecord, true>> = {
  decided: true,
  quorum_breaker_changed: true,
  claim_ended: true,
  claim_expired: true,
  completed: true,
  conflict_repaired: true,
  lease_began: true,
  lease_ended: true,
  lease_released: true,
  lease_renewed: true,
  operator_decided: true,
  outcome_adopted: true,
  outcome_damaged: true,
  outcome_offered: true,
  round_settled: true,
  settled_late: true,
  takeover: true,
  written_back: true,
}
const KINDS_OF_A_RECORD = Object.keys(KINDS)

/** Steps of what another line says when it is over; metrics and traces have them. */
const WITHOUT_A_LINE = {
  lease_began: { kind: 'lease_began', recordKey: KEY, token: 5 },
  lease_released: { kind: 'lease_released', recordKey: KEY, token: 5, durationMs: 1, result: 'released' },
  outcome_offered: { kind: 'outcome_offered', recordKey: KEY, token: 5, result: 'recorded', durationMs: 1 },
  round_settled: {
    kind: 'round_settled',
    command: 'claim',
    recordKey: KEY,
    majorityReached: true,
    answered: 5,
    votes: 5,
    margin: 2,
    durationMs: 1,
  },
} as const satisfies Partial<Record<OfARecord, CoreEvent>>

type Row = readonly [line: string, has: string, events: readonly CoreEvent[]]

/**
 * Per field of {@link FIELDS}, in that order: `x` the line has it; `.` it does not exist at that event.
 *
 * lock of a mismatch, a refusal: nobody's claim is known. A duplicate has the lock of the claim that executed it.
 * nodes of an ended lease, a completion written back: no round decided it. Lease of a completed record: it has none.
 */
const ROWS: readonly Row[] = [
  //                                    lock hash quorum reached left attempt tenant error
  [
    'acquired',
    'x x x x x x x .',
    [
      claimEnded,
      { ...leaseEnded, ended: 'completed' },
      { ...decided, decision: 'acquired', lockId: LOCK_ID, token: 5, attempt: 3 },
    ],
  ],
  [
    'duplicate, completed',
    'x x x x . x x .',
    [{ ...decided, decision: 'duplicate_completed', holder: 5, attempt: 3, ...counted }],
  ],
  [
    'duplicate, completed, known to this process',
    'x x . . . x x .',
    [{ ...decided, decision: 'duplicate_completed', holder: 5, attempt: 3 }],
  ],
  [
    'duplicate, in flight',
    '. x x x x . x .',
    [{ ...decided, decision: 'duplicate_in_flight', ...counted, leaseRemainingMs: 700 }],
  ],
  [
    'duplicate, in flight in this process',
    '. x . . x . x .',
    [{ ...decided, decision: 'duplicate_in_flight', leaseRemainingMs: 700 }],
  ],
  [
    'refused: another request',
    '. x x x . . x .',
    [{ ...decided, decision: 'fingerprint_mismatch', ...counted }],
  ],
  [
    'refused: lost quorum',
    '. x x x . . x .',
    [{ ...decided, decision: 'quorum_unavailable', status: 503, ...counted }],
  ],
  ['passed on without a quorum', '. x x x . . x .', [{ ...decided, decision: 'fail_open', ...counted }]],
  [
    'quorum_breaker_changed',
    '. . x x . . . .',
    [{ kind: 'quorum_breaker_changed', from: 'closed', to: 'open', ...counted }],
  ],
  ['takeover', 'x x x x x x x .', [{ kind: 'takeover', ...claim, ...counted, ...left }]],
  [
    'claim_expired',
    'x x x x x x x .',
    [{ kind: 'claim_expired', ...claim, ...counted, ...left, elapsedMs: 1 }],
  ],
  [
    'lease_renewed',
    'x x x x x x x x',
    [{ kind: 'lease_renewed', recordKey: KEY, token: 5, result: 'unavailable', durationMs: 1, failed }],
  ],
  ['lease_ended', 'x x . . x x x .', [{ ...leaseEnded, ended: 'expired' }]],
  ['completed', 'x x x x x x x .', [{ kind: 'completed', result: 'unavailable', ...recording, ...counted }]],
  ['settled_late', 'x x x x x x x .', [{ kind: 'settled_late', result: 'fenced', ...recording, ...counted }]],
  ['settled_late, recorded', 'x x . . x x x .', [{ kind: 'settled_late', result: 'recorded', ...recording }]],
  ['written_back', 'x x . . . x x .', [{ kind: 'written_back', result: 'conflict', ...claim, pending: 0 }]],
  [
    'outcome_adopted',
    'x x x x . x x .',
    [{ kind: 'outcome_adopted', ...claim, token: 9, holder: 5, ...counted }],
  ],
  [
    'conflict_repaired',
    'x x x x . x x .',
    [{ kind: 'conflict_repaired', recordKey: KEY, attempt: 3, tokens: [4, 5], holder: 5, ...counted }],
  ],
  // What it was decided about is the record; whose claim that was is in the audit log.
  [
    'operator_decided',
    '. x . . . . x .',
    [{ kind: 'operator_decided', recordKey: KEY, decision: 'end', by: 'ann', result: 'done' }],
  ],
  [
    'outcome_damaged',
    '. x x x . x x r',
    [{ kind: 'outcome_damaged', recordKey: KEY, reason: 'digest', attempt: 3, ...counted }],
  ],
]

function linesOf(events: readonly CoreEvent[], level = 'info') {
  const lines: Record<string, unknown>[] = []
  const target = { write: (line: string) => void lines.push(JSON.parse(line)) }
  const publish = logEvents(createLog({ level, instance: 'pod-1', target, onLost: () => {} }), {
    nodeCount: NODES,
    decisionsPerSecond: 100,
    monoMs: () => 0,
    onDropped: () => {},
    trace: () => undefined,
  })
  for (const event of events) publish(event)
  return lines
}

describe('a line has every agreed field that its event has', () => {
  test.each(ROWS)('%s: %s', (_, has, events) => {
    const expected = FIELDS.flatMap((field, index) => {
      const mark = has.split(' ')[index]
      return mark === '.' ? [] : [[field, mark === 'r' ? 'digest' : VALUES[field]]]
    })
    const [line, ...more] = linesOf(events)
    expect(more).toEqual([])
    const shown = Object.fromEntries(
      Object.entries(line ?? {}).filter(([name]) => FIELDS.includes(name as Field)),
    )
    expect(shown).toEqual(Object.fromEntries(expected))
  })

  test('every kind of event about one record is in the table, or has no line', () => {
    const kinds = new Set(ROWS.flatMap(([, , events]) => events.map(({ kind }) => kind)))
    const silent = Object.keys(WITHOUT_A_LINE)
    expect([...kinds].sort()).toEqual(KINDS_OF_A_RECORD.filter((kind) => !silent.includes(kind)).sort())
    for (const event of Object.values(WITHOUT_A_LINE)) expect(linesOf([event], 'debug')).toEqual([])
  })
})

test('a line that the level hides does not read what it would say', () => {
  const hidden = Object.defineProperty({ ...failed }, 'replies', {
    get: () => {
      throw new Error('the replies were read')
    },
  })
  const event: CoreEvent = {
    kind: 'lease_renewed',
    recordKey: KEY,
    token: 5,
    result: 'lost',
    durationMs: 1,
    failed: hidden,
  }
  expect(linesOf([event], 'error')).toEqual([])
  expect(() => linesOf([event], 'warn')).toThrow('the replies were read')
})

describe('tenant', () => {
  test.each([
    ['dedup:shop:prod:v1:lock', 'shop'],
    ['dedup:a%3Ab:prod:v1:hash', 'a:b'],
    ['dedup::probe:pod-1', undefined],
    ['dedup:%:groups', undefined],
  ])('of a line about %s: %s', (recordKey, tenant) => {
    const [line] = linesOf([{ kind: 'outcome_damaged', recordKey, reason: 'digest' }])
    expect(line?.tenant).toBe(tenant)
  })
})

test('a duplicate is not acquired, although its line names the lock of the claim that executed it', () => {
  const [line] = linesOf([{ ...decided, decision: 'duplicate_completed', holder: 5 }])
  expect(line).toMatchObject({ acquired: false, lock_id: LOCK_ID })
})

test('a problem is found by what its client has: the instance', () => {
  const instance = 'urn:uuid:0bb2ee9c-1a0e-4b0e-8ee6-a0d4a7a1f1a3'
  const [line] = linesOf([{ ...decided, decision: 'invalid', instance }])
  expect(line).toMatchObject({ instance })
})

test('the log of a sidecar: a duplicate names the lock of the first, and a lost quorum how many nodes it reached', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await using application = await startCountingApplication()
  let output = ''
  await using sidecar = await startSidecar(
    { ...between(servers, application), ...PATIENT },
    {
      onOutput: (text) => {
        output += text
      },
    },
  )
  const send = async (key: string) => {
    const answer = await posted(`${sidecar.proxy}/payments`, { 'idempotency-key': key }, 'x')
    return answer.text()
  }
  const reserve = async (value: string) => {
    const answer = await postedJson(`${sidecar.api}/v1/reservations`, {
      session_id: value,
      reserved_value: 'one',
    })
    return answer.text()
  }
  await send('a')
  await send('a')
  await reserve('first')
  const held = JSON.parse(await reserve('second')) as { readonly instance: string }
  await servers.kill(0)
  await servers.kill(1)
  const lost = JSON.parse(await send('b')) as { readonly instance: string }
  await sidecar.process.end()

  const lines = output
    .split('\n')
    .filter((line) => line.includes('"event":"decided"'))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
  const [first] = lines
  expect(first).toMatchObject({ acquired: true, lock_id: expect.any(String), attempt: 1 })
  expect(lines).toMatchObject([
    {},
    { acquired: false, lock_id: first?.lock_id, key_hash: first?.key_hash, attempt: 1, tenant: 'default' },
    { entrypoint: 'api', acquired: true, tenant: 'default', attempt: 1 },
    {
      entrypoint: 'api',
      acquired: false,
      tenant: 'default',
      key_hash: lines[2]?.key_hash,
      instance: held.instance,
    },
    { quorum_nodes: expect.stringMatching(/^[01]\/3$/), instance: lost.instance },
  ])
  // Two that refuse their connections decide it; the third may not have answered by then.
  expect(lines[4]?.quorum_nodes).toBe(`${lines[4]?.nodes_reached}/3`)
})
