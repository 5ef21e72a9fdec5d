/**
 * What a sidecar has observed since its start, route by route: what protecting its requests would have done, and why.
 *
 * Owns the sums, for `fencepost observe report`. Bounded: by the routes of the configuration and by closed lists of words.
 */

import { type ObservedEvent, WOULD, type Would } from '../decision.ts'

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

export type Observations = {
  readonly add: (event: ObservedEvent) => void
  readonly view: () => readonly ObservedRouteView[]
}

type Sums = {
  readonly route: string
  readonly by: ObservedRouteView['by']
  readonly would: Record<Would, number>
  readonly because: Record<string, number>
  readonly ages: number[]
}

export function createObservations(): Observations {
  const known = new Map<string, Sums>()

  function sumsOf(event: ObservedEvent): Sums {
    const { route } = event
    const by = event.by ?? 'none'
    const name = `${by} ${route}`
    const sums: Sums = known.get(name) ?? { route, by, would: zeros(), because: {}, ages: noAges() }
    known.set(name, sums)
    return sums
  }

  return {
    add: (event) => {
      const { would, because, ages } = sumsOf(event)
      would[event.would] += 1
      if (event.would === 'refused' || event.would === 'unknown')
        because[event.because] = (because[event.because] ?? 0) + 1
      const { ageMs } = event
      if (ageMs === undefined) return
      for (const [at, upToS] of [...OBSERVED_AGES_S, Number.POSITIVE_INFINITY].entries())
        if (ageMs <= upToS * 1_000) ages[at] = (ages[at] ?? 0) + 1
    },
    view: () => [...known.values()].sort((a, b) => a.route.localeCompare(b.route)),
  }
}

function zeros(): Record<Would, number> {
  return Object.fromEntries(WOULD.map((word) => [word, 0])) as Record<Would, number>
}

function noAges(): number[] {
  return [...OBSERVED_AGES_S, 0].map(() => 0)
}
