/** What sidecars have observed, as one report: their sums, and a line of each in words. */

import { WOULD, type Would } from '../decision.ts'
import {
  mostFrequent,
  type NearMissView,
  OBSERVED_AGES_S,
  type ObservationsView,
  type ObservedRouteView,
} from './observations.ts'

/** What one sidecar says of itself (`/observed` of its admin listener). */
export type ObservedBySidecar = ObservationsView & { readonly since: string }

/** @returns the oldest start, and the sums of all of them */
export function summed(all: readonly ObservedBySidecar[]): ObservedBySidecar {
  const sums = new Map<string, ObservedRouteView>()
  for (const view of all.flatMap(({ routes }) => routes)) {
    const name = `${view.by} ${view.route}`
    const before = sums.get(name)
    sums.set(name, before === undefined ? view : { ...view, ...added(before, view) })
  }
  const since = all.map((one) => one.since).toSorted()[0] ?? ''
  const pairs = new Map<string, NearMissView>()
  for (const miss of all.flatMap(({ near_misses }) => near_misses)) {
    const key = [miss.route, ...miss.names].join(' ')
    pairs.set(key, { ...miss, pairs: miss.pairs + (pairs.get(key)?.pairs ?? 0) })
  }
  const routes = [...sums.values()].sort((a, b) => a.route.localeCompare(b.route))
  return { since, routes, near_misses: mostFrequent([...pairs.values()]) }
}

function added(one: ObservedRouteView, other: ObservedRouteView) {
  const counts = <K extends string>(a: Readonly<Record<K, number>>, b: Readonly<Record<K, number>>) => {
    const names = [...new Set([...Object.keys(a), ...Object.keys(b)])] as K[]
    return Object.fromEntries(names.map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)])) as Record<
      K,
      number
    >
  }
  return {
    would: counts(one.would, other.would),
    because: counts(one.because, other.because),
    ages: one.ages.map((count, at) => count + (other.ages[at] ?? 0)),
  }
}

export function countOf({ would }: Pick<ObservedRouteView, 'would'>): number {
  return WOULD.reduce((sum, word) => sum + would[word], 0)
}

const SAYS: Readonly<Record<Would, string>> = {
  executed: 'executed',
  replayed: 'answered from the record, with the answer that the application gave again',
  replayed_other:
    'answered from the record, with another answer than the application gave: it was executed once more, or it was another request',
  waited: 'told that the same request is under way, or let wait for it',
  refused: 'refused',
  unprotected: 'passed on unprotected, without a key',
  unknown: 'unknown: too few nodes answered, or it was not seen whole',
}

const KEYED: Readonly<Record<ObservedRouteView['by'], string>> = {
  key: 'by key',
  content: 'by content, without a key',
  none: 'with neither',
}

/** One route and what would have been its key, in lines. */
export function linesOf(view: ObservedRouteView): readonly string[] {
  const { route, by, would, because } = view
  const reasons = Object.entries(because).map(([why, count]) => `${count} ${why}`)
  const replays = view.ages.at(-1) ?? 0
  return [
    `${route}, ${KEYED[by]}: ${countOf(view)} requests would have been`,
    ...WOULD.flatMap((word) =>
      would[word] === 0 ? [] : [`  ${String(would[word]).padStart(9)}  ${SAYS[word]}`],
    ),
    ...(reasons.length === 0 ? [] : [`  of those refused or unknown: ${reasons.join(', ')}`]),
    ...(replays === 0 ? [] : [`  ages of what would have been replayed: ${agesOf(view.ages, replays)}`]),
  ]
}

function agesOf(ages: readonly number[], all: number): string {
  const shown = OBSERVED_AGES_S.flatMap((upToS, at) => {
    const [here = 0, before = 0] = [ages[at], ages[at - 1]]
    return here > before ? [`${Math.floor((100 * here) / all)} % at most ${upToS} s`] : []
  })
  const older = all - (ages[OBSERVED_AGES_S.length - 1] ?? 0)
  return [...shown, ...(older > 0 ? [`${older} older`] : [])].join(', ')
}
