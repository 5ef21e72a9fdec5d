/**
 * Races of several contents for one key until one claimant wins: five healthy nodes, each a few milliseconds away, and
 * sidecars that do not know of each other. As tests, over a number of seeds.
 */
import { describe, expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import type { Clock } from '../../../src/core/clock.ts'
import { SILENT } from '../../../src/core/events.ts'
import type { ClaimResult, Leases, RecordNode } from '../../../src/core/ports.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { embeddedNodes } from '../../support/cluster.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const KEY = `dedup:t:e:v:${'0'.repeat(64)}`
/** The default of FENCEPOST_CLAIM_BUDGET. */
const BUDGET_MS = 100

type Ways = { readonly clock: Clock; readonly delayMs: () => number }

/** The connection from one sidecar to a node: delays from the seed, messages in the order in which they were sent. */
function faraway(node: RecordNode, { clock, delayMs }: Ways): RecordNode {
  const way = () => {
    let lastMonoMs = 0
    return () =>
      new Promise<void>((resolve) => {
        lastMonoMs = Math.max(lastMonoMs, clock.monoMs() + delayMs())
        clock.timer(lastMonoMs - clock.monoMs(), resolve)
      })
  }
  const [there, back] = [way(), way()]
  return {
    name: node.name,
    execute: async (command) => {
      await there()
      const answer = await node.execute(command)
      await back()
      return answer
    },
  }
}

function sidecarsOn(count: number, seed: number, wayMs: number) {
  const clock = new VirtualClock()
  const dice = seededRandom(seed)
  const nodes = embeddedNodes(5, clock)
  const sidecars = Array.from({ length: count }, (_, at): Leases => {
    const ways = { clock, delayMs: () => dice.fraction() * wayMs }
    const far = nodes.map((node) => faraway(node, ways))
    const quorum = createRedlockQuorum({ nodes: far, clock, events: SILENT })
    return createLeases({ quorum, clock, random: seededRandom(seed * 100 + at), events: SILENT })
  })
  return { clock, dice, sidecars }
}

async function race(
  contents: readonly string[],
  seed: number,
  wayMs: number,
): Promise<readonly ClaimResult[]> {
  const { clock, dice, sidecars } = sidecarsOn(contents.length, seed, wayMs)
  const claims = contents.map(async (fingerprint, at) => {
    await new Promise<void>((resolve) => void clock.timer(dice.fraction() * wayMs, resolve))
    const request = { key: KEY, fingerprint, leaseMs: 30_000, retentionMs: 3_600_000, budgetMs: BUDGET_MS }
    return (sidecars[at] as Leases).claim(request)
  })
  return clock.during(Promise.all(claims))
}

export function testsOfRaces(seeds: number): void {
  describe('a race of three contents for one key, five nodes healthy', () => {
    test.each([1, 4, 10])('has exactly one winner, up to %d ms a way', async (wayMs) => {
      const lost: string[] = []
      for (let seed = 1; seed <= seeds; seed += 1) {
        const results = await race(
          ['a', 'b', 'c'].map((letter) => letter.repeat(64)),
          seed,
          wayMs,
        )
        const kinds = results.map(({ kind }) => kind).sort()
        const others = kinds.filter((kind) => kind !== 'granted')
        const fine =
          others.length === 2 && others.every((kind) => kind === 'mismatch' || kind === 'contended')
        if (!fine) lost.push(`seed ${seed}: ${kinds}`)
      }
      expect(lost).toEqual([])
    })

    test('a race of one content also has exactly one winner', async () => {
      const lost: string[] = []
      for (let seed = 1; seed <= seeds; seed += 1) {
        const results = await race(Array(3).fill('a'.repeat(64)), seed, 10)
        if (results.filter(({ kind }) => kind === 'granted').length !== 1)
          lost.push(`seed ${seed}: ${results.map(({ kind }) => kind)}`)
      }
      expect(lost).toEqual([])
    })
  })
}
