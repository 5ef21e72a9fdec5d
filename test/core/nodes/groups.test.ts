// Which group keeps an identity: the same on every sidecar, evenly spread, and a function of the set of groups alone.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import { SILENT } from '../../../src/core/events.ts'
import { placementOf, routeLeases } from '../../../src/core/nodes/groups.ts'
import { fingerprintOfName } from '../../../src/core/request/identity.ts'
import { complete } from '../../../src/core/reservations/reservations.ts'
import { reserve } from '../../../src/core/reservations/reserve.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { seededRandom, seedOfRun } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const keyOf = (hash: string) => `dedup:acme:prod:v1:${hash}`
const names = fc.uniqueArray(fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$/), {
  minLength: 2,
  maxLength: 4,
})
const keys = fc.array(fc.string({ unit: 'grapheme-ascii', maxLength: 40 }).map(keyOf), {
  minLength: 1,
  maxLength: 20,
})
const chosenBy = (groups: readonly string[]) => {
  const placement = placementOf(groups)
  return (key: string) => groups[placement(key)]
}

describe('placement', () => {
  test('placement is pinned: a change would move records of every cluster', () => {
    const place = chosenBy(['a', 'b', 'c'])
    const placed = Array.from({ length: 12 }, (_, index) => place(keyOf(String(index)))).join('')
    expect(placed).toBe(PLACED)
  })

  test('placement does not depend on the order of the groups', () => {
    fc.assert(
      fc.property(names, keys, fc.infiniteStream(fc.nat()), (groups, some, dice) => {
        const shuffled = [...groups].sort(() => ((dice.next().value ?? 0) % 2 === 0 ? 1 : -1))
        expect(some.map(chosenBy(shuffled))).toEqual(some.map(chosenBy(groups)))
      }),
    )
  })

  test('a new group takes keys from the others and moves none between them', () => {
    fc.assert(
      fc.property(names, keys, (groups, some) => {
        const [added, ...before] = groups
        for (const key of some) {
          const now = chosenBy(groups)(key)
          expect(now === added || now === chosenBy(before)(key)).toBe(true)
        }
      }),
    )
  })

  test.each([2, 3, 4])(
    'placement over %i groups is even within a twentieth, and one more group takes only its share',
    (count) => {
      const random = seededRandom(seedOfRun('placement'))
      const groups = Array.from({ length: count }, () => random.hex(4))
      const more = [...groups, random.hex(4)]
      const [place, placeMore] = [chosenBy(groups), chosenBy(more)]
      const total = 40_000
      const share = new Map<string | undefined, number>()
      let moved = 0
      for (let i = 0; i < total; i += 1) {
        const key = keyOf(random.hex(32))
        const group = place(key)
        share.set(group, (share.get(group) ?? 0) + 1)
        if (group !== placeMore(key)) moved += 1
      }
      // Of 40,000 keys 5 % of a quarter are more than five standard deviations.
      const near = (part: number, whole: number) => Math.abs(part / (total / whole) - 1) < 0.05
      for (const group of groups) expect([group, near(share.get(group) ?? 0, count)]).toEqual([group, true])
      expect(near(moved, count + 1)).toBe(true)
    },
  )
})

describe('leases over groups', () => {
  const FEW = { leaseMs: 10_000, retentionMs: 60_000, budgetMs: 100 }
  const NAMES = ['a', 'b']
  const placement = placementOf(NAMES)

  function groups({ agreed = () => true }: { readonly agreed?: () => boolean } = {}) {
    const clock = new VirtualClock()
    const random = seededRandom(1)
    const nodes = NAMES.map(() => createEmbeddedNodes(3, clock, 1_000, SILENT))
    const each = nodes.map((three) => {
      const quorum = createRedlockQuorum({ nodes: three, clock, events: SILENT })
      return createLeases({ quorum, clock, random, events: SILENT })
    })
    return { clock, nodes, each, leases: routeLeases(each, placement, { required: 2, agreed }) }
  }

  const claimOf = (key: string) => ({ key, fingerprint: 'f'.repeat(64), ...FEW })
  const some = Array.from({ length: 20 }, (_, index) => keyOf(String(index)))

  test('each record stands on its group and on no other, and a second claimant finds it held', async () => {
    const { leases, each } = groups()
    for (const key of some) {
      expect((await leases.claim(claimOf(key))).kind).toBe('granted')
      expect((await leases.claim(claimOf(key))).kind).toBe('held')
      const stands = await Promise.all(each.map(async (group) => (await group.read(key)).kind))
      expect(stands).toEqual(NAMES.map((_, group) => (group === placement(key) ? 'claimed' : 'absent')))
    }
    expect(new Set(some.map(placement)).size).toBe(2)
  })

  test('without agreement on the groups every claim, renewal, completion, release and read is refused', async () => {
    let agreed = true
    const { leases } = groups({ agreed: () => agreed })
    const claimed = await leases.claim(claimOf('k'))
    if (claimed.kind !== 'granted') expect.fail(claimed.kind)
    agreed = false
    const outcome = { kind: 'tombstone', status: 200, completedAtWallMs: 0 } as const
    const { lease } = claimed
    const answers = [
      await leases.claim(claimOf('k')),
      await leases.renew(lease),
      await leases.complete(lease, outcome),
      await leases.release(lease),
      await leases.read('k'),
    ]
    expect(answers.map(({ kind }) => kind)).toEqual(Array(5).fill('unavailable'))
    agreed = true
    expect((await leases.complete(lease, outcome)).kind).toBe('recorded')
  })

  test('records reserved together on several groups have one owner and one token', async () => {
    const { leases, each, clock, nodes } = groups()
    const intents = some.slice(0, 6).map((key) => ({ recordKey: key, fingerprint: fingerprintOfName(key) }))
    expect(new Set(intents.map(({ recordKey }) => placement(recordKey))).size).toBe(2)
    // An earlier holder on one of the groups had a larger token than this one would draw.
    const last = intents.at(-1)?.recordKey ?? ''
    const earlier = await leases.claim(claimOf(last))
    if (earlier.kind !== 'granted') expect.fail(earlier.kind)
    const raised = await leases.renew({ ...earlier.lease, token: earlier.lease.token + 50 * 1_024 })
    if (raised.kind !== 'renewed') expect.fail(raised.kind)
    expect((await leases.release(raised.lease)).kind).toBe('released')

    const request = {
      ...FEW,
      intents,
      entities: [],
      takeover: 'reexecute',
      sessionTag: '5'.repeat(16),
    } as const
    const reserved = await reserve(request, leases, seededRandom(2))
    if (reserved.kind !== 'reserved') expect.fail(reserved.kind)
    const { token, owner } = reserved.reservation
    expect(token).toBeGreaterThan(raised.lease.token)
    for (const { recordKey } of intents)
      expect(await each[placement(recordKey)]?.read(recordKey)).toMatchObject({
        kind: 'claimed',
        token,
        owner,
      })

    // With one of the groups lost it can't be completed, and no other session gets a part of it.
    for (const node of nodes[1] ?? []) node.stop()
    const outcome = { kind: 'tombstone', status: 200, completedAtWallMs: 0 } as const
    const completing = complete(reserved.reservation, outcome, leases)
    await clock.advance(10 * FEW.budgetMs)
    expect((await completing).kind).toBe('unavailable')
    const other = reserve({ ...request, sessionTag: '6'.repeat(16) }, leases, seededRandom(3))
    await clock.advance(10 * FEW.budgetMs)
    expect(['conflict', 'duplicate', 'unavailable']).toContain((await other).kind)
  })

  test('a lost group refuses its own identities, and no others', async () => {
    const { clock, leases, nodes } = groups()
    for (const node of nodes[1] ?? []) node.stop()
    const claiming = Promise.all(some.map((key) => leases.claim(claimOf(key))))
    await clock.advance(10 * FEW.budgetMs)
    const kinds = (await claiming).map(({ kind }) => kind)
    expect(kinds).toEqual(some.map((key) => (placement(key) === 0 ? 'granted' : 'unavailable')))
  })
})

const PLACED = 'ababaaabccbc'
