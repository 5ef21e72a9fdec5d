/** Several records as one reservation, on five embedded nodes that do what the test says. */
import { describe, expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import { createWaiters } from '../../../src/core/claims/waiters.ts'
import type { Clock } from '../../../src/core/clock.ts'
import { SILENT } from '../../../src/core/events.ts'
import { routeLeases } from '../../../src/core/nodes/groups.ts'
import type { Leases, NodeAnswer, RecordNode } from '../../../src/core/ports.ts'
import type { RecordCommand } from '../../../src/core/record/record.ts'
import { fingerprintOfName } from '../../../src/core/request/identity.ts'
import { reserveOrWait } from '../../../src/core/reservations/reservation-wait.ts'
import { complete, extend, type Intent, release } from '../../../src/core/reservations/reservations.ts'
import { type ReserveRequest, reserve } from '../../../src/core/reservations/reserve.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { createCluster, embeddedNodes } from '../../support/cluster.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const keyOf = (name: string) => `dedup:t:e:v:${name.padEnd(64, '0')}`
const intentOf = (name: string): Intent => ({
  recordKey: keyOf(name),
  fingerprint: fingerprintOfName(keyOf(name)),
})

type Meddle = (command: RecordCommand, node: number) => NodeAnswer | undefined

function cluster() {
  const clock = new VirtualClock()
  const random = seededRandom(3)
  let meddle: Meddle = () => undefined
  const nodes: RecordNode[] = createEmbeddedNodes(5, clock, 10_000, SILENT).map((node, index) => ({
    name: node.name,
    execute: async (command) => meddle(command, index) ?? node.execute(command),
  }))
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  const leases = createLeases({ quorum, clock, random, events: SILENT })
  const ask = (
    session: string,
    names: readonly string[],
    more: Partial<ReserveRequest> = {},
  ): ReserveRequest => ({
    intents: names.map(intentOf),
    entities: [],
    takeover: 'reexecute',
    sessionTag: Buffer.from(session.padEnd(8)).toString('hex'),
    leaseMs: 10_000,
    retentionMs: 60_000,
    budgetMs: 100,
    ...more,
  })
  const tryReserve = (...of: Parameters<typeof ask>) => clock.during(reserve(ask(...of), leases, random))
  const mustReserve = async (...of: Parameters<typeof ask>) => {
    const result = await tryReserve(...of)
    if (result.kind !== 'reserved') throw new Error(result.kind)
    return result.reservation
  }
  const meddleWith = (how: Meddle) => {
    meddle = how
  }
  return { clock, random, nodes, leases, ask, tryReserve, mustReserve, meddleWith }
}

const SILENCE: NodeAnswer = { kind: 'unreachable', reason: 'timeout', detail: '' }
const outcome = (result: unknown, completedAtWallMs: number) =>
  ({ kind: 'result', result, completedAtWallMs }) as const

test('a reservation has each value once, in the order of the keys, and one token for all', async () => {
  const { mustReserve, leases } = cluster()
  const reservation = await mustReserve('s', ['b', 'a', 'b', 'c'])
  expect(reservation.intents).toEqual(['a', 'b', 'c'].map(intentOf))
  for (const { recordKey } of reservation.intents)
    expect(await leases.read(recordKey)).toMatchObject({ kind: 'claimed', token: reservation.token })
})

test('a completion that reached one record only is finished by the same one again, and not by another', async () => {
  const { mustReserve, meddleWith, leases, clock } = cluster()
  const reservation = await mustReserve('s', ['a', 'b'])
  meddleWith(({ kind, key }) => (kind === 'complete' && key === keyOf('b') ? SILENCE : undefined))
  expect(await clock.during(complete(reservation, outcome('paid', 1), leases))).toEqual({
    kind: 'unavailable',
  })
  expect(await leases.read(keyOf('a'))).toMatchObject({ kind: 'completed' })
  expect(await leases.read(keyOf('b'))).toMatchObject({ kind: 'claimed' })
  meddleWith(() => undefined)
  expect(await extend(reservation, () => 10_000, leases)).toMatchObject({ kind: 'extended' })
  expect(await complete(reservation, outcome('paid', 2), leases)).toEqual({ kind: 'done' })
  expect(await extend(reservation, () => 10_000, leases)).toEqual({ kind: 'done' })
  for (const name of ['a', 'b'])
    expect(await leases.read(keyOf(name))).toMatchObject({ kind: 'completed', outcome: { result: 'paid' } })
  expect(await complete(reservation, outcome('not paid', 3), leases)).toMatchObject({
    kind: 'done_otherwise',
    outcome: { result: 'paid' },
  })
  expect(await leases.read(keyOf('a'))).toMatchObject({ outcome: { result: 'paid' } })
})

test('a common token that too few nodes accept reserves no record, and is not called a conflict', async () => {
  const { tryReserve, mustReserve, meddleWith } = cluster()
  meddleWith(({ kind }, node) => (kind === 'renew' && node < 3 ? SILENCE : undefined))
  expect(await tryReserve('s', ['a', 'b'])).toEqual({ kind: 'unsettled' })
  meddleWith(() => undefined)
  const other = await mustReserve('other', ['a', 'b'])
  expect(other.attempt).toBe(1)
})

test('a reservation over two groups whose clocks are an hour apart leaves every record claimable', async () => {
  const HOUR_MS = 3_600_000
  const clock = new VirtualClock()
  const random = seededRandom(5)
  const ahead: Clock = {
    ...clock,
    monoMs: () => clock.monoMs(),
    wallMs: () => clock.wallMs() + HOUR_MS,
    timer: (...of) => clock.timer(...of),
  }
  const groups = [createCluster(clock, random), createCluster(clock, random, embeddedNodes(5, ahead))]
  const [inTime, early] = groups.map(({ leases }) => leases) as [Leases, Leases]
  const leases = routeLeases([inTime, early], (key) => Number(key === keyOf('b')), {
    required: 3,
    agreed: () => true,
  })
  const claimOf = (name: string) => ({
    key: keyOf(name),
    fingerprint: fingerprintOfName(keyOf(name)),
    leaseMs: 10_000,
    retentionMs: 60_000,
    budgetMs: 100,
  })
  // An earlier holder had the clock of the second group: its record has the token of another hour.
  const before = await groups[1]?.sidecar(ahead).claim(claimOf('b'))
  if (before?.kind !== 'granted') throw new Error('not granted')
  await early.release(before.lease)

  const request: ReserveRequest = {
    intents: ['a', 'b'].map(intentOf),
    entities: [],
    takeover: 'reexecute',
    sessionTag: '0'.repeat(16),
    leaseMs: 10_000,
    retentionMs: 60_000,
    budgetMs: 100,
  }
  expect(await clock.during(reserve(request, leases, random))).toEqual({ kind: 'unsettled', skewed: true })
  // Both were given back and are free at once.
  expect(await clock.during(inTime.claim(claimOf('a')))).toMatchObject({
    kind: 'granted',
    lease: { attempt: 1 },
  })
  expect(await clock.during(early.claim(claimOf('b')))).toMatchObject({
    kind: 'granted',
    lease: { attempt: 1 },
  })
})

test('a session is recognised while it holds, and only for what it holds', async () => {
  const { mustReserve, tryReserve, clock } = cluster()
  const first = await mustReserve('s', ['a', 'b'])
  await clock.advance(5_000)
  const again = await mustReserve('s', ['b', 'a'])
  expect([again.token, again.owner]).toEqual([first.token, first.owner])
  // That was a renewal: it now lasts from then.
  await clock.advance(9_000)
  expect((await mustReserve('s', ['a', 'b'])).token).toBe(first.token)
  expect(await tryReserve('s', ['a', 'b', 'c'])).toMatchObject({ kind: 'conflict', retryAfterMs: 1_000 })
  expect(await tryReserve('other', ['a'])).toMatchObject({ kind: 'conflict' })
  await clock.advance(10_001)
  const later = await mustReserve('s', ['a', 'b'])
  expect(later.token).toBeGreaterThan(first.token)
  expect(later.attempt).toBe(2)
})

/** Another process on the same nodes, which hears of its own commands what `deaf` makes of them. */
function anotherProcess(
  { nodes, clock, random }: Pick<ReturnType<typeof cluster>, 'nodes' | 'clock' | 'random'>,
  deaf: (command: RecordCommand, execute: () => Promise<NodeAnswer>) => Promise<NodeAnswer>,
) {
  const quorum = createRedlockQuorum({
    nodes: nodes.map(({ name, execute }) => ({
      name,
      execute: (command: RecordCommand) => deaf(command, () => execute(command)),
    })),
    clock,
    events: SILENT,
  })
  const leases = createLeases({ quorum, clock, random, events: SILENT })
  return (request: ReserveRequest) => reserve(request, leases, random)
}

const isWithdrawal = (command: RecordCommand) => command.kind === 'release' && command.withdraws === true

// Found by simulation (seed 5555586): what a first call gives up, because too few nodes answered it in time, may be what a second call of
// the same session has found on a majority and answered with.
describe('a session reserves again while its first call waits', () => {
  test('what the first call gives up, the second one keeps', async () => {
    const on = cluster()
    const { promise: resumed, resolve: goOn } = Promise.withResolvers<void>()
    const reserveDeaf = anotherProcess(on, async (command, execute) => {
      if (isWithdrawal(command)) await resumed
      const answer = await execute()
      return command.kind === 'claim' ? SILENCE : answer
    })
    const first = reserveDeaf({ ...on.ask('s', ['a']), budgetMs: 0 })
    const again = await on.tryReserve('s', ['a'])
    goOn()
    const kinds = [
      again.kind,
      (await on.clock.during(first)).kind,
      (await on.tryReserve('other', ['a'])).kind,
    ]
    expect(kinds).toEqual(['reserved', 'unavailable', 'conflict'])
  })

  test('a later round of the first call finds it held, and gets the same reservation', async () => {
    const on = cluster()
    const { promise: resumed, resolve: goOn } = Promise.withResolvers<void>()
    let firstRound = true
    const reserveDeaf = anotherProcess(on, async (command, execute) => {
      if (isWithdrawal(command)) {
        // It is lost, and the next round comes after the second call.
        await resumed
        firstRound = false
        return SILENCE
      }
      const answer = await execute()
      return command.kind === 'claim' && firstRound ? SILENCE : answer
    })
    const first = reserveDeaf(on.ask('s', ['a']))
    const again = await on.mustReserve('s', ['a'])
    goOn()
    expect(await on.clock.during(first)).toMatchObject({
      kind: 'reserved',
      reservation: { owner: again.owner, token: again.token },
    })
    expect(await extend(again, () => 10_000, on.leases)).toMatchObject({ kind: 'extended' })
  })

  test('several values, raised to one token: what the first call gives up, the second one keeps', async () => {
    const on = cluster()
    const { promise: resumed, resolve: goOn } = Promise.withResolvers<void>()
    const reserveDeaf = anotherProcess(on, async (command, execute) => {
      if (isWithdrawal(command)) await resumed
      const answer = await execute()
      return command.kind === 'renew' && command.raises ? SILENCE : answer
    })
    const first = reserveDeaf(on.ask('s', ['a', 'b']))
    await on.clock.advance(1)
    const again = await on.mustReserve('s', ['a', 'b'])
    goOn()
    expect((await on.clock.during(first)).kind).toBe('unsettled')
    for (const name of ['a', 'b']) expect((await on.tryReserve('other', [name])).kind).toBe('conflict')
    expect(await extend(again, () => 10_000, on.leases)).toMatchObject({ kind: 'extended' })
  })

  test('for one of several values: the first call cannot raise that under the second one', async () => {
    const on = cluster()
    const { promise: resumed, resolve: goOn } = Promise.withResolvers<void>()
    const reserveDeaf = anotherProcess(on, async (command, execute) => {
      if (command.kind === 'renew' && command.raises) await resumed
      return execute()
    })
    const first = reserveDeaf(on.ask('s', ['a', 'b']))
    await on.clock.advance(1)
    const again = await on.mustReserve('s', ['a'])
    goOn()
    expect((await on.clock.during(first)).kind).toBe('conflict')
    expect(await extend(again, () => 10_000, on.leases)).toMatchObject({ kind: 'extended' })
    expect((await on.tryReserve('other', ['b'])).kind).toBe('reserved')
  })

  test('a takeover that the first call is about to give up is none for the second one either', async () => {
    const on = cluster()
    await on.mustReserve('before', ['a'])
    await on.clock.advance(10_001)
    const { promise: resumed, resolve: goOn } = Promise.withResolvers<void>()
    const reserveHeld = anotherProcess(on, async (command, execute) => {
      if (isWithdrawal(command)) await resumed
      return execute()
    })
    const first = reserveHeld(on.ask('s', ['a'], { takeover: 'indeterminate' }))
    await on.clock.advance(1)
    const again = await on.tryReserve('s', ['a'], { takeover: 'indeterminate' })
    goOn()
    expect([again.kind, (await on.clock.during(first)).kind]).toEqual(['undecided', 'undecided'])
    expect((await on.mustReserve('other', ['a'])).attempt).toBe(2)
  })

  test('what it holds is given back by its own release', async () => {
    const on = cluster()
    const first = await on.mustReserve('s', ['a', 'b'])
    const again = await on.mustReserve('s', ['a', 'b'])
    expect(again.token).toBe(first.token)
    expect(await release(again, on.leases)).toEqual({ kind: 'done' })
    expect((await on.tryReserve('other', ['a', 'b'])).kind).toBe('reserved')
  })
})

test('an expired reservation can be extended until another session takes it; then it is lost for good', async () => {
  const { mustReserve, leases, clock } = cluster()
  const first = await mustReserve('s', ['a', 'b'])
  await clock.advance(10_001)
  expect(await extend(first, () => 10_000, leases)).toMatchObject({ kind: 'extended' })
  await clock.advance(10_001)
  const second = await mustReserve('other', ['b'])
  expect(await extend(first, () => 10_000, leases)).toEqual({ kind: 'lost' })
  expect(await complete(first, outcome('late', 1), leases)).toEqual({ kind: 'fenced' })
  expect(await leases.read(keyOf('b'))).toMatchObject({ kind: 'claimed', token: second.token })
})

test('where another session took one of several records, none is recorded as done, in either order', async () => {
  for (const taken of ['a', 'b']) {
    const { mustReserve, leases, clock } = cluster()
    const first = await mustReserve('s', ['a', 'b'])
    await clock.advance(10_001)
    const second = await mustReserve('other', [taken])
    // Its holder learns that it came too late, and undoes its work for both.
    expect(await complete(first, outcome('paid', 1), leases)).toEqual({ kind: 'fenced' })
    expect(await leases.read(keyOf(taken))).toMatchObject({ kind: 'claimed', token: second.token })
    expect(await leases.read(keyOf(taken === 'a' ? 'b' : 'a'))).toMatchObject({ kind: 'claimed' })
    await clock.advance(10_001)
    expect((await mustReserve('third', [taken === 'a' ? 'b' : 'a'])).attempt).toBe(2)
  }
})

test('a completion that reached one record is undecided once another session takes the other record', async () => {
  const { mustReserve, meddleWith, leases, clock } = cluster()
  const first = await mustReserve('s', ['a', 'b'])
  meddleWith(({ kind, key }) => (kind === 'complete' && key === keyOf('b') ? SILENCE : undefined))
  await clock.during(complete(first, outcome('paid', 1), leases))
  meddleWith(() => undefined)
  await clock.advance(10_001)
  await mustReserve('other', ['b'])
  expect(await complete(first, outcome('paid', 2), leases)).toEqual({ kind: 'undecided' })
})

test('a completion that reached one record is finished by the same one again, after other sessions too', async () => {
  const { mustReserve, tryReserve, meddleWith, leases, clock } = cluster()
  const reservation = await mustReserve('s', ['a', 'b'])
  meddleWith(({ kind, key }) => (kind === 'complete' && key === keyOf('b') ? SILENCE : undefined))
  await clock.during(complete(reservation, outcome('paid', 1), leases))
  meddleWith(() => undefined)
  expect(await tryReserve('other', ['a'])).toMatchObject({ kind: 'duplicate' })
  expect(await complete(reservation, outcome('paid', 2), leases)).toEqual({ kind: 'done' })
  expect(await leases.read(keyOf('b'))).toMatchObject({ kind: 'completed', outcome: { result: 'paid' } })
})

test('entities are released with the last call, and only when every intent has its outcome', async () => {
  const { mustReserve, meddleWith, leases, clock } = cluster()
  const entities = [intentOf('entity')]
  const reservation = await mustReserve('s', ['a'], { entities })
  meddleWith(({ kind }) => (kind === 'complete' ? SILENCE : undefined))
  await clock.during(complete(reservation, outcome('paid', 1), leases))
  expect(await leases.read(keyOf('entity'))).toMatchObject({ kind: 'claimed' })
  meddleWith(() => undefined)
  await complete(reservation, outcome('paid', 1), leases)
  expect(await leases.read(keyOf('entity'))).toMatchObject({ kind: 'released' })
  const next = await mustReserve('next', ['b'], { entities })
  expect(next.token).toBeGreaterThan(reservation.token)
  expect(await release(next, leases)).toEqual({ kind: 'done' })
  expect(await leases.read(keyOf('entity'))).toMatchObject({ kind: 'released' })
})

test('an undecided claim stays expired as it was, however often sessions try to reserve it', async () => {
  const { mustReserve, tryReserve, leases, clock } = cluster()
  await mustReserve('s', ['b'])
  await clock.advance(10_001)
  for (const session of ['one', 'two', 'three']) {
    const asked = await tryReserve(session, ['a', 'b', 'c'], { takeover: 'indeterminate' })
    expect(asked).toMatchObject({ kind: 'undecided', intent: intentOf('b') })
  }
  expect(await leases.read(keyOf('a'))).toMatchObject({ kind: 'released' })
  expect(await leases.read(keyOf('b'))).toMatchObject({ kind: 'claimed', remainingMs: 0, attempt: 1 })
  expect((await mustReserve('s2', ['b'])).attempt).toBe(2)
})

test('a second attempt at one record is a first at the others, and a release leaves those without one', async () => {
  const { mustReserve, leases, clock } = cluster()
  await mustReserve('s', ['b'])
  await clock.advance(10_001)
  const reservation = await mustReserve('next', ['a', 'b'], { entities: [intentOf('entity')] })
  expect(reservation.attempt).toBe(2)
  expect((await extend(reservation, () => 10_000, leases)).kind).toBe('extended')
  expect(await leases.read(keyOf('a'))).toMatchObject({ kind: 'claimed', attempt: 1 })
  expect(await leases.read(keyOf('b'))).toMatchObject({ kind: 'claimed', attempt: 2 })
  expect(await release(reservation, leases)).toEqual({ kind: 'done' })
  expect(await leases.read(keyOf('a'))).toMatchObject({ kind: 'released' })
  expect(await leases.read(keyOf('b'))).toMatchObject({ kind: 'claimed', remainingMs: 0, attempt: 1 })
  expect(await leases.read(keyOf('entity'))).toMatchObject({ kind: 'released' })
  expect((await mustReserve('later', ['a'], { takeover: 'indeterminate' })).attempt).toBe(1)
})

test('a reservation that took longer to get than it lasts is given back and not handed out', async () => {
  const { ask, meddleWith, leases, clock, random } = cluster()
  // The claim of the second value lets more time pass than the lease has.
  meddleWith(({ kind, key }) => {
    if (kind === 'renew' && key === keyOf('a')) clock.stepWall(20_000)
    return undefined
  })
  const ports = { leases, clock, random, waiters: createWaiters(1, 1) }
  const asked = reserveOrWait(ask('s', ['a', 'b']), 0, new AbortController().signal, ports)
  expect(await clock.during(asked)).toMatchObject({ kind: expect.not.stringMatching('reserved') })
  meddleWith(() => undefined)
  expect(await leases.read(keyOf('a'))).toMatchObject({ kind: 'released' })
})
