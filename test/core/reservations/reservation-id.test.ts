/** An id carries the whole reservation, and only the secret makes or changes one. */
import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import { SILENT } from '../../../src/core/events.ts'
import type { RecordNode } from '../../../src/core/ports.ts'
import { ENTITY_MARK, fingerprintOfName, recordKey } from '../../../src/core/request/identity.ts'
import {
  RESERVATION_ID_CHARS_MAX,
  reservationIdOf,
  verifyReservationId,
  whyForeign,
} from '../../../src/core/reservations/reservation-id.ts'
import {
  agreedSecret,
  SECRET_RECORD_KEY,
  sessionTagOf,
} from '../../../src/core/reservations/reservation-secret.ts'
import type { Reservation } from '../../../src/core/reservations/reservations.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { LIMITS } from '../../../src/http/reservations/schemas.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { systemRandom } from '../../../src/system/clock.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const SECRET = Buffer.alloc(32, 7)
const hex = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((of) => Buffer.from(of).toString('hex'))
const scope = fc.constantFrom(
  'dedup:default:default:v1',
  'dedup:a%3Ab:%20:..',
  `dedup:${'%41'.repeat(128)}:e:v`,
)

const reservation: fc.Arbitrary<Reservation> = fc
  .record({
    scope,
    values: fc.array(hex(32), { minLength: 1, maxLength: LIMITS.valuesMax }),
    entities: fc.array(hex(32), { maxLength: LIMITS.entitiesMax }),
    fingerprint: fc.option(hex(32), { nil: undefined }),
    owner: hex(16),
    token: fc.maxSafeNat(),
    attempt: fc.integer({ min: 1, max: 9_999 }),
    attemptsDiffer: fc.boolean(),
    leaseMs: fc.integer({ min: 100, max: 3_600_000 }),
    retentionMs: fc.integer({ min: 1_000, max: 366 * 86_400_000 }),
    trace: fc.option(fc.record({ traceId: hex(16), spanId: hex(8) }), { nil: undefined }),
  })
  .map(({ scope: names, values, entities, fingerprint, trace, attemptsDiffer, ...rest }) => ({
    ...rest,
    ...(attemptsDiffer ? { attempts: values.map((_, n) => Math.max(1, rest.attempt - n)) } : {}),
    ...(trace === undefined ? {} : { trace }),
    intents: values.map((hash) => {
      const key = `${names}:${hash}`
      return { recordKey: key, fingerprint: fingerprint ?? fingerprintOfName(key) }
    }),
    entities: entities.map((hash) => {
      const key = `${names}${ENTITY_MARK}:${hash}`
      return { recordKey: key, fingerprint: fingerprintOfName(key) }
    }),
  }))

describe('an id', () => {
  test('an id is parsed to the same reservation', () => {
    fc.assert(
      fc.property(reservation, (of) => {
        expect(verifyReservationId(reservationIdOf(of, SECRET), [SECRET])).toEqual({
          kind: 'reservation',
          reservation: of,
        })
      }),
      { numRuns: 500 },
    )
  })

  test('the id of the longest reservation that the API grants keeps to the limit, for values of names alone', () => {
    const name = '%FF'.repeat(128)
    const names = Array.from(
      { length: LIMITS.valuesMax },
      (_, n) => `dedup:${name}:e:v:${String(n).padStart(64, '0')}`,
    )
    const id = reservationIdOf(
      {
        intents: names.map((key) => ({ recordKey: key, fingerprint: fingerprintOfName(key) })),
        entities: names.slice(0, 8).map((key) => ({ recordKey: key, fingerprint: fingerprintOfName(key) })),
        owner: '0'.repeat(32),
        token: 1,
        attempt: 2,
        attempts: names.map((_, n) => 1 + (n % 2)),
        trace: { traceId: '0'.repeat(32), spanId: '0'.repeat(16) },
        leaseMs: 100,
        retentionMs: 1_000,
      },
      SECRET,
    )
    expect(id.length).toBeLessThanOrEqual(RESERVATION_ID_CHARS_MAX)
    expect(LIMITS.idCharsMax).toBe(RESERVATION_ID_CHARS_MAX)
  })

  test('an id with a character changed, cut or added is foreign, and one under another secret is lost', () => {
    const [of] = fc.sample(reservation, { numRuns: 1, seed: 1 })
    const id = reservationIdOf(of!, SECRET)
    const changed = [...id].map((char, at) => id.slice(0, at) + (char === 'A' ? 'B' : 'A') + id.slice(at + 1))
    // Within the mark, 4 bytes before the 32 of the signature, a change looks like another secret.
    const marked = (at: number) => at >= id.length - 49 && at <= id.length - 42
    for (const bad of [...changed.filter((_, at) => !marked(at)), `${id}=`, `${id}\n`, '', 'r1_'])
      expect(verifyReservationId(bad, [SECRET])).toEqual({ kind: 'foreign' })
    for (const bad of [...changed, id.slice(0, -1), `${id}A`, id.toUpperCase()])
      expect(verifyReservationId(bad, [SECRET]).kind).not.toBe('reservation')
    expect(verifyReservationId(id, [Buffer.alloc(32, 8)])).toEqual({ kind: 'lost' })
    expect(verifyReservationId(id, [])).toEqual({ kind: 'lost' })
    expect(verifyReservationId(id, [Buffer.alloc(32, 8), SECRET]).kind).toBe('reservation')
  })

  test('an id with a flag of a later version is read without what that version added', () => {
    const [of] = fc.sample(reservation, { numRuns: 1, seed: 1 })
    const own = Buffer.from(reservationIdOf(of!, SECRET).slice('r1_'.length), 'base64url')
    const payload = Buffer.concat([own.subarray(0, -32), Buffer.from('added later')])
    payload[0]! |= 128
    const mac = createHmac('sha256', SECRET).update('fencepost-reservation-id/1\0').update(payload).digest()
    const later = `r1_${Buffer.concat([payload, mac]).toString('base64url')}`
    expect(verifyReservationId(later, [SECRET])).toEqual({ kind: 'reservation', reservation: of })
  })

  test.each([
    [
      'r2_AAAB',
      'begins with r2_, and this sidecar reads ids that begin with r1_: a sidecar of a later version',
    ],
    ['r17_AAAB', 'begins with r17_'],
    ['r1_AAAB', 'is not one that a sidecar of this cluster has given out'],
    ['order-4711', 'is not one that a sidecar of this cluster has given out'],
  ])('%s is foreign, and the sentence says why', (id, why) => {
    expect(verifyReservationId(id, [SECRET])).toEqual({ kind: 'foreign' })
    expect(whyForeign(id)).toContain(why)
  })

  test('arbitrary text is never more than foreign', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), (text) => {
        expect(verifyReservationId(`r1_${text}`, [SECRET])).toEqual({ kind: 'foreign' })
      }),
    )
  })
})

describe('the secret', () => {
  function sidecars(count: number) {
    const clock = new VirtualClock()
    let behind = createEmbeddedNodes(5, clock, 10_000, SILENT)
    let away = 0
    const hung = Promise.withResolvers<void>()
    let hanging = 0
    const nodes: RecordNode[] = behind.map(({ name }, index) => ({
      name,
      execute: async (command) => {
        if (index < hanging) await hung.promise
        return index < away
          ? { kind: 'unreachable', reason: 'refused', detail: '' }
          : behind[index]!.execute(command)
      },
    }))
    const takeAway = (count: number) => {
      away = count
    }
    /** @returns a function that lets them answer */
    const hang = (count: number) => {
      hanging = count
      return () => {
        hanging = 0
        hung.resolve()
      }
    }
    const empty = () => {
      behind = createEmbeddedNodes(5, clock, 10_000, SILENT)
    }
    const secrets = Array.from({ length: count }, () => {
      const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
      const leases = createLeases({ quorum, clock, random: systemRandom, events: SILENT })
      return agreedSecret({ leases, clock, random: systemRandom })
    })
    return { clock, secrets, takeAway, hang, empty }
  }

  test('sidecars that read the secret at the same moment or later get the same one', async () => {
    const { clock, secrets } = sidecars(8)
    const agreed = await clock.during(Promise.all(secrets.map((one) => one.current(5_000))))
    expect(new Set(agreed.map(([secret]) => secret?.toString('hex'))).size).toBe(1)
    expect(agreed[0]?.[0]?.length).toBe(32)
  })

  test('the secret is missing without a quorum, and there as soon as there is one', async () => {
    const { clock, secrets, takeAway } = sidecars(1)
    takeAway(3)
    expect(await clock.during(secrets[0]!.current(1_000))).toEqual([])
    takeAway(2)
    expect((await clock.during(secrets[0]!.current(1_000))).length).toBe(1)
  })

  test('with three nodes hung nobody waits longer than asked for; what the look finds later is there for the next', async () => {
    const { clock, secrets, hang } = sidecars(1)
    const resume = hang(3)
    const [secret] = secrets
    for (const withinMs of [100, 30]) {
      const startedMonoMs = clock.monoMs()
      expect(await clock.during(secret!.current(withinMs))).toEqual([])
      expect(clock.monoMs() - startedMonoMs).toBe(withinMs)
    }
    resume()
    await clock.advance(10)
    expect((await secret!.current(0)).length).toBe(1)
  })

  test('whether the secret has changed is not known while too few nodes answer', async () => {
    const { clock, secrets, takeAway } = sidecars(1)
    const [secret] = secrets
    const agreed = await clock.during(secret!.current(1_000))
    expect(await clock.during(secret!.refreshed(1_000))).toEqual(agreed)
    await clock.advance(2_000)
    takeAway(3)
    expect(await clock.during(secret!.refreshed(1_000))).toBeUndefined()
    takeAway(2)
    expect(await clock.during(secret!.refreshed(1_000))).toEqual(agreed)
  })

  test('the secret is read again later: emptied nodes get a new one, and the old one still verifies', async () => {
    const first = sidecars(1)
    const [before] = await first.clock.during(first.secrets[0]!.current(1_000))
    first.empty()
    expect((await first.secrets[0]!.current(1_000))[0]).toEqual(before)
    await first.clock.advance(61_000)
    await first.secrets[0]!.current(1_000)
    await first.clock.advance(1_000)
    const after = await first.secrets[0]!.current(1_000)
    expect(after.length).toBe(2)
    expect(after[1]).toEqual(before)
    expect(after[0]).not.toEqual(before)
  })

  test('the secret stands under a key that no request can have, and is copied with the records', () => {
    expect(SECRET_RECORD_KEY).toMatch(/^dedup:[^:]/)
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 20 }), (tenant) => {
        const key = recordKey({ tenant, env: '%', apiVersion: '%', mode: 'reservation', value: 'v' })
        expect(key.kind === 'record_key' && key.recordKey.startsWith('dedup:%:')).toBe(false)
      }),
    )
  })

  test('the secret names a session in its own scope', () => {
    const tags = [
      { tenant: 't', env: 'e', sessionId: 's' },
      { tenant: 't', env: 'es', sessionId: '' },
      { tenant: 'te', env: '', sessionId: 's' },
      { tenant: 't', env: 'e', sessionId: 'r' },
    ].map((of) => sessionTagOf(SECRET, of))
    expect(new Set(tags).size).toBe(4)
    expect(tags[0]).toMatch(/^[0-9a-f]{16}$/)
  })
})
