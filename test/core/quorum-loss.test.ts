import { expect, test } from 'vitest'
import { createLeases } from '../../src/core/claims/leases.ts'
import { createWriteBack, type WriteBackOptions } from '../../src/core/claims/write-back.ts'
import { type CoreEvent, SILENT } from '../../src/core/events.ts'
import { quorumBreaker } from '../../src/core/nodes/quorum-breaker.ts'
import { claimDiagnostics } from '../../src/core/outcome.ts'
import type { ClaimRequest, Leases } from '../../src/core/ports.ts'
import type { StoredOutcome } from '../../src/core/record/stored-outcome.ts'
import { createEmbeddedNodes } from '../../src/embedded/node.ts'
import { whyUnavailable } from '../../src/http/message/record-problems.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { seededRandom } from '../support/seeded-random.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const request = (name: string): ClaimRequest => ({
  key: `dedup:t:e:v:${name}`,
  fingerprint: name.padEnd(64, '0'),
  leaseMs: 10_000,
  retentionMs: 3_600_000,
  budgetMs: 100,
})
const outcome = (body: string): StoredOutcome => ({
  kind: 'response',
  status: 200,
  headers: [],
  body: Buffer.from(body),
  completedAtWallMs: 0,
})

/** A quorum that can be lost, and the local leases of this process. */
function pod(more: Partial<WriteBackOptions> = {}) {
  const clock = new VirtualClock()
  const random = seededRandom(7)
  const events: CoreEvent[] = []
  const publisher = { publish: (event: CoreEvent) => void events.push(event) }
  const leasesOn = (count: number): Leases => {
    const nodes = createEmbeddedNodes(count, clock, 10_000, publisher)
    return createLeases({
      quorum: createRedlockQuorum({ nodes, clock, events: publisher }),
      clock,
      random,
      events: publisher,
    })
  }
  const shared = leasesOn(3)
  let lost = false
  let asked = 0
  const leases: Leases = {
    ...shared,
    claim: async (claim) => {
      asked += 1
      return lost ? { kind: 'unavailable', answered: 0, required: 2 } : shared.claim(claim)
    },
  }
  const guarded = quorumBreaker({ required: 2, clock, random, events: publisher })(leases)
  const writeBack = createWriteBack(leasesOn(1), {
    leases: guarded,
    clock,
    random,
    events: publisher,
    ...more,
  })
  const carryOut = async (on: Leases, name: string, body: string) => {
    const claimed = await on.claim(request(name))
    if (claimed.kind !== 'granted') throw new Error(`${name}: ${claimed.kind}`)
    return on.complete(claimed.lease, outcome(body))
  }
  return {
    clock,
    shared,
    guarded,
    writeBack,
    carryOut,
    lose: (now: boolean) => {
      lost = now
    },
    asked: () => asked,
    writtenBack: () => events.flatMap((e) => (e.kind === 'written_back' ? [e.result] : [])),
    breaker: () => events.flatMap((e) => (e.kind === 'quorum_breaker_changed' ? [e.to] : [])),
  }
}

test('without a quorum nodes get a few calls a second; claims are granted two seconds after its return', async () => {
  const { clock, guarded, lose, asked, breaker } = pod()
  lose(true)
  // Ten requests at a time, a hundred times a second.
  const storm = async (forMs: number) => {
    const before = asked()
    for (let ms = 0; ms < forMs; ms += 10) {
      await Promise.all(Array.from({ length: 10 }, () => guarded.claim(request('a'))))
      await clock.advance(10)
    }
    return asked() - before
  }
  await storm(1_100)
  expect(breaker()).toEqual(['open'])
  expect(await storm(60_000)).toBeLessThan(60 * 8)
  lose(false)
  await storm(2_000)
  expect(breaker().at(-1)).toBe('closed')
  expect(await guarded.claim(request('b'))).toMatchObject({ kind: 'granted' })
})

// Two nodes may vote meanwhile: an answer that counts none of them would say something of nodes that nobody asked.
test('while the breaker is open a claim says that no node was asked', async () => {
  const { clock, guarded, lose, breaker } = pod()
  lose(true)
  expect(await guarded.claim(request('a'))).not.toHaveProperty('notAsked')
  while (!breaker().includes('open')) {
    await guarded.claim(request('a'))
    await clock.advance(100)
  }
  const refused = { kind: 'unavailable', answered: 0, required: 2, notAsked: 'no_majority' } as const
  await guarded.claim(request('a'))
  expect(await guarded.claim(request('a'))).toEqual(refused)
  expect(claimDiagnostics(refused)).toEqual({ found: { notAsked: 'no_majority' } })
  expect(whyUnavailable(refused)).toBe('No node was asked: the last claims found no majority.')
})

test('a moment without a quorum does not open the breaker', async () => {
  const { clock, guarded, lose, asked } = pod()
  lose(true)
  for (let n = 0; n < 9; n += 1) {
    await guarded.claim(request('a'))
    await clock.advance(100)
  }
  expect(asked()).toBe(9)
})

test('a local completion is written back when the quorum returns, and then answers duplicates everywhere', async () => {
  const { clock, shared, writeBack, carryOut, lose, writtenBack } = pod()
  lose(true)
  await carryOut(writeBack.local, 'a', 'done here')
  await clock.advance(30_000)
  expect(writeBack.pending()).toBe(1)
  lose(false)
  await clock.advance(3_000)
  expect(writtenBack()).toEqual(['recorded'])
  expect(await shared.claim(request('a'))).toMatchObject({ kind: 'duplicate', outcome: outcome('done here') })
})

test('where another sidecar executed the request meanwhile, its outcome stands, with a conflict event', async () => {
  const { clock, shared, writeBack, carryOut, lose, writtenBack } = pod()
  lose(true)
  await carryOut(writeBack.local, 'a', 'done here')
  await carryOut(shared, 'a', 'done elsewhere')
  lose(false)
  await clock.advance(3_000)
  expect(writtenBack()).toEqual(['conflict'])
  expect(await shared.claim(request('a'))).toMatchObject({ outcome: outcome('done elsewhere') })
})

test('write-back waits for another holder at work, which does not delay the other outcomes', async () => {
  const { clock, shared, writeBack, carryOut, lose, writtenBack } = pod()
  lose(true)
  await carryOut(writeBack.local, 'a', 'done here')
  await carryOut(writeBack.local, 'b', 'done here, too')
  const other = await shared.claim(request('a'))
  lose(false)
  await clock.advance(3_000)
  expect(writtenBack()).toEqual(['recorded'])
  if (other.kind === 'granted') await shared.complete(other.lease, outcome('elsewhere'))
  await clock.advance(5_000)
  expect(writtenBack()).toEqual(['recorded', 'conflict'])
  expect(writeBack.pending()).toBe(0)
})

test('an outcome without room, too old or left at the end is dropped, and each drop is reported', async () => {
  const { clock, writeBack, carryOut, lose, writtenBack } = pod({ queueMax: 2 })
  lose(true)
  for (const name of ['a', 'b', 'c']) await carryOut(writeBack.local, name, 'done')
  expect(writtenBack()).toEqual(['dropped'])
  await clock.advance(3_605_000)
  expect(writeBack.pending()).toBe(0)
  await carryOut(writeBack.local, 'd', 'done')
  writeBack[Symbol.dispose]()
  expect(new Set(writtenBack())).toEqual(new Set(['dropped']))
  expect(writtenBack().length).toBe(4)
})

// Bug: the sooner of two clocks decided that an outcome was too old. A wall clock that was set an hour ahead dropped outcomes of a moment
// ago, and their requests were carried out again (seed 2745 of the simulation).
test('a wall clock that is set ahead drops no outcome', async () => {
  const { clock, shared, writeBack, carryOut, lose, writtenBack } = pod()
  lose(true)
  await carryOut(writeBack.local, 'a', 'done here')
  clock.stepWall(2 * request('a').retentionMs)
  lose(false)
  await clock.advance(3_000)
  expect(writtenBack()).toEqual(['recorded'])
  expect(await shared.claim(request('a'))).toMatchObject({ outcome: outcome('done here') })
})

test('local protection has a bound: beyond it no request begins until a record expires', async () => {
  const clock = new VirtualClock()
  const nodes = createEmbeddedNodes(1, clock, 10_000, SILENT, 10_000)
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  const local = createLeases({ quorum, clock, random: seededRandom(7), events: SILENT })
  const ask = (name: string) => clock.during(local.claim(request(name)), 1_000)
  const begun = await ask('begun')
  for (let n = 0; n < 3; n += 1) {
    const claimed = await ask(`large ${n}`)
    if (claimed.kind !== 'granted') throw new Error(claimed.kind)
    expect(await local.complete(claimed.lease, outcome('x'.repeat(4_000)))).toEqual({ kind: 'recorded' })
  }
  expect(await ask('one more')).toMatchObject({ kind: 'unavailable' })
  // It still knows its outcomes, and records the one that it began.
  expect(await ask('large 0')).toMatchObject({ kind: 'duplicate' })
  if (begun.kind !== 'granted') throw new Error(begun.kind)
  expect(await local.complete(begun.lease, outcome('late'))).toEqual({ kind: 'recorded' })
  await clock.advance(3_600_001)
  for (let n = 0; n < 4; n += 1) await local.read('dedup:t:e:v:any')
  expect(await ask('one more')).toMatchObject({ kind: 'granted' })
})
