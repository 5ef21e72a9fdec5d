/**
 * What a sidecar has observed since its start, route by route: what protecting its requests would have done, and why.
 *
 * Owns the sums, for `fencepost observe report`. Bounded: by the routes of the configuration and by closed lists of words.
 */

import { type NearMissEvent, type ObservedEvent, WOULD, type Would } from '../decision.ts'

/** From a double click to the retention of a key. */
export const OBSERVED_AGES_S: readonly number[] = [1, 10, 30, 60, 300, 3_600, 86_400]

export type ObservedRouteView = {
  readonly route: string
  /** What would have been the key of these requests; `none`: they have none, or were not seen whole. */
  readonly by: 'key' | 'content' | 'none'
  readonly would: Readonly<Record<Would, number>>
  /** Of those that would have been refused or are unknown: why, by the code of the problem or the kind of the outcome. */
  readonly because: Readonly<Record<string, number>>
  /** Of those that would have been replayed: how many were at most as old as each of {@link OBSERVED_AGES_S}, and all. */
  readonly ages: readonly number[]
}

export type NearMissView = {
  readonly route: string
  readonly names: readonly string[]
  readonly pairs: number
  /** A sentence. */
  readonly says: string
}

export type ObservationsView = {
  readonly routes: readonly ObservedRouteView[]
  /** The most frequent first. */
  readonly near_misses: readonly NearMissView[]
}

export type Observations = {
  readonly add: (event: ObservedEvent | NearMissEvent) => void
  readonly view: () => ObservationsView
}

/** Names are the clients': each may send new ones. */
const NEAR_MISSES_MAX = 100
const NEAR_MISSES_SHOWN = 20

type Sums = {
  readonly route: string
  readonly by: ObservedRouteView['by']
  readonly would: Record<Would, number>
  readonly because: Record<string, number>
  readonly ages: number[]
}

export function createObservations(): Observations {
  const known = new Map<string, Sums>()
  const nearMisses = new Map<string, Omit<NearMissView, 'says'>>()

  function sumsOf(event: ObservedEvent): Sums {
    const { route } = event
    const by = event.by ?? 'none'
    const name = `${by} ${route}`
    const sums: Sums = known.get(name) ?? { route, by, would: zeros(), because: {}, ages: noAges() }
    known.set(name, sums)
    return sums
  }

  function addNearMiss({ route, names }: NearMissEvent): void {
    const key = [route, ...names].join(' ')
    const pairs = (nearMisses.get(key)?.pairs ?? 0) + 1
    if (pairs === 1 && nearMisses.size >= NEAR_MISSES_MAX) return
    nearMisses.set(key, { route, names, pairs })
  }

  return {
    add: (event) => {
      if (event.kind === 'near_miss') return addNearMiss(event)
      const { would, because, ages } = sumsOf(event)
      would[event.would] += 1
      if (event.would === 'refused' || event.would === 'unknown')
        because[event.because] = (because[event.because] ?? 0) + 1
      const { ageMs } = event
      if (ageMs === undefined) return
      for (const [at, upToS] of [...OBSERVED_AGES_S, Number.POSITIVE_INFINITY].entries())
        if (ageMs <= upToS * 1_000) ages[at] = (ages[at] ?? 0) + 1
    },
    view: () => ({
      routes: [...known.values()].sort((a, b) => a.route.localeCompare(b.route)),
      near_misses: mostFrequent([...nearMisses.values()]),
    }),
  }
}

function zeros(): Record<Would, number> {
  return Object.fromEntries(WOULD.map((word) => [word, 0])) as Record<Would, number>
}

function noAges(): number[] {
  return [...OBSERVED_AGES_S, 0].map(() => 0)
}

export function mostFrequent(all: readonly Omit<NearMissView, 'says'>[]): readonly NearMissView[] {
  return all
    .toSorted((a, b) => b.pairs - a.pairs)
    .slice(0, NEAR_MISSES_SHOWN)
    .map(({ route, names, pairs }) => ({ route, names, pairs, says: nearMissSays(route, names, pairs) }))
}

/** Ignored, one user could get the answer of another. */
const MAY_SAY_WHO = /^cookie:|auth|token|session|key|user|client|account|tenant|login/i

function nearMissSays(route: string, names: readonly string[], pairs: number): string {
  const shown = names.map((name) => `\`${name}\``).join(', ')
  const seen = `${pairs} ${pairs === 1 ? 'pair' : 'pairs'} on \`${route}\` differed only in ${shown}`
  return names.some((name) => MAY_SAY_WHO.test(name))
    ? `${seen}: that may be two users, who stay two; ignore it only where it says nothing of who asks`
    : `${seen}: if that changes between tries, ignore it: \`fingerprint: { ignore: [${names.join(', ')}] }\``
}
