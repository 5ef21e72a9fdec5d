// Which lost leases become dead letters, and when a dead letter is taken back.
import { describe, expect, test } from 'vitest'
import { appendAudit } from '../../src/app/coordination.ts'
import {
  type AuditEntry,
  type AuditLog,
  auditEntryOf,
  reportingUntaken,
} from '../../src/core/coordination/audit-log.ts'
import { type CoreEvent, type LeaseEnd, SILENT } from '../../src/core/events.ts'
import { ENTITY_MARK } from '../../src/core/request/identity.ts'
import { systemClock } from '../../src/system/clock.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const HASH = 'ab'.repeat(32)
const KEY = `dedup:shop:prod:v1:${HASH}`
const claim = { recordKey: KEY, token: 7, attempt: 2 } as const
const ended = (end: LeaseEnd, recordKey = KEY): CoreEvent => ({
  kind: 'lease_ended',
  ...claim,
  recordKey,
  fingerprint: 'f0',
  ended: end,
  heldMs: 9,
  remainingMs: 0,
})

describe('a lease that ends', () => {
  test.each<[end: LeaseEnd, deadLetter: boolean]>([
    ['completed', false],
    ['released', false],
    ['abandoned', false],
    ['expired', true],
    ['lost', true],
  ])('%s: a dead letter is written: %s', (end, deadLetter) => {
    const written = auditEntryOf(ended(end), () => 5)
    expect(written).toEqual(
      deadLetter
        ? {
            stream: 'dead-letters',
            entry: {
              id: `orphan:${HASH.slice(-16)}:7`,
              kind: 'renewal_failed',
              atWallMs: 5,
              recordKey: KEY,
              fields: { token: '7', attempt: '2', fingerprint: 'f0', ended: end },
            },
          }
        : undefined,
    )
  })
})

/** As the nodes keep it: an entry that is there is not written again. */
function keptLog(): { readonly auditLog: AuditLog; readonly deadLetters: Map<string, AuditEntry> } {
  const deadLetters = new Map<string, AuditEntry>()
  const auditLog: AuditLog = {
    append: async (stream, entry) => {
      if (stream === 'dead-letters') deadLetters.set(entry.id, deadLetters.get(entry.id) ?? entry)
      return true
    },
    read: async () => ({ kind: 'entries', entries: [...deadLetters.values()] }),
    remove: async (_, id) => {
      deadLetters.delete(id)
      return true
    },
  }
  return { auditLog, deadLetters }
}

const recording = (kind: 'completed' | 'settled_late', result: 'recorded' | 'fenced' | 'unavailable') =>
  ({ kind, ...claim, result, attempts: 1, remainingMs: 0 }) as CoreEvent

const REPORTING_NOTHING = reportingUntaken(systemClock, SILENT)

describe('the dead letter of a claim', () => {
  test.each([
    ['completed', 'recorded', 0],
    ['settled_late', 'recorded', 0],
    ['completed', 'fenced', 1],
    ['settled_late', 'unavailable', 1],
  ] as const)('whose work then %s: %s: %i dead letters are left', async (kind, result, left) => {
    const { auditLog, deadLetters } = keptLog()
    const publish = appendAudit(auditLog, systemClock, REPORTING_NOTHING)
    publish(ended('expired'))
    publish(recording(kind, result))
    await new Promise(setImmediate)
    expect(deadLetters.size).toBe(left)
  })

  test('is one, however often its lease is found lost', async () => {
    const { auditLog, deadLetters } = keptLog()
    for (const end of ['expired', 'lost'] as const)
      appendAudit(auditLog, systemClock, REPORTING_NOTHING)(ended(end))
    await new Promise(setImmediate)
    expect([...deadLetters.values()].map(({ fields }) => fields.ended)).toEqual(['expired'])
  })

  test.each(['dedup::office:sweeper', `dedup:shop:prod:v1${ENTITY_MARK}:${HASH}`])(
    'is not written about %s, under which no work of its own is done',
    async (recordKey) => {
      const { auditLog, deadLetters } = keptLog()
      appendAudit(auditLog, systemClock, REPORTING_NOTHING)(ended('expired', recordKey))
      await new Promise(setImmediate)
      expect(deadLetters.size).toBe(0)
    },
  )
})

test('entries that no majority takes are told of once in ten seconds, and all of them are counted', async () => {
  const clock = new VirtualClock()
  const told: [number, string][] = []
  let taken = false
  const auditLog: AuditLog = { ...keptLog().auditLog, append: async () => taken }
  const publish = appendAudit(
    auditLog,
    clock,
    reportingUntaken(clock, {
      publish: (event) => {
        if (event.kind === 'entries_untaken' && event.of === 'audit') told.push([event.entries, event.why])
      },
    }),
  )
  const degraded: CoreEvent = {
    kind: 'decided',
    entrypoint: 'proxy',
    decision: 'fail_open',
    detail: 'fail_open',
    route: 'payments',
    status: 200,
    durationMs: 1,
    keyHash: HASH,
  }
  // An outage of fifteen seconds, in which a route goes on without a quorum.
  for (let at = 0; at < 1_500; at += 1) {
    publish(degraded)
    await clock.advance(10)
  }
  taken = true
  publish(degraded)
  await clock.advance(10)
  publish(degraded)
  await clock.advance(10)
  expect(told).toEqual([
    [1, 'degraded'],
    [1_000, 'degraded'],
    [499, 'degraded'],
  ])
})
