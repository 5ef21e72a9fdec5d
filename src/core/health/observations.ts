/**
 * What a sidecar has observed since its start: what protecting the requests of its routes would have done, and near misses.
 *
 * Owns counting them, of one sidecar or of several, and saying them in words. One row for all that is equal; bounded, by the routes of the
 * configuration and closed lists of words, and for near misses by a number, as their names are the clients'.
 */

import { type NearMissEvent, type ObservedEvent, WOULD, type Would } from '../decision.ts'

/** From a double click to the retention of a key. */
export const OBSERVED_AGES_S: readonly number[] = [1, 10, 30, 60, 300, 3_600, 86_400]

export type ObservedRow = {
  readonly route: string
  /** What would have been the key of these requests; `none`: they have none, or were not seen whole. */
  readonly by: 'key' | 'content' | 'none'
  readonly would: Would
  /** By the code of the problem, or the kind of the outcome. */
  readonly because: string
  /** Of those that would have been replayed: with an answer of at most this age, one of {@link OBSERVED_AGES_S}. */
  readonly within_s?: number | 'older'
  readonly count: number
}

type NearMissRow = { readonly route: string; readonly names: readonly string[]; readonly count: number }

export type ObservationsView = {
  readonly observed: readonly ObservedRow[]
  /** The most frequent first, each with a sentence. */
  readonly near_misses: readonly (NearMissRow & { readonly says: string })[]
}

export type Observations = {
  readonly add: (event: ObservedEvent | NearMissEvent) => void
  /** What another sidecar has observed. */
  readonly include: (view: ObservationsView) => void
  readonly view: () => ObservationsView
}

const NEAR_MISSES_MAX = 100
const NEAR_MISSES_SHOWN = 20

export function createObservations(): Observations {
  const observed = tally<ObservedRow>(Number.POSITIVE_INFINITY)
  const nearMisses = tally<NearMissRow>(NEAR_MISSES_MAX)
  return {
    add: (event) => {
      if (event.kind === 'near_miss')
        return nearMisses.add({ route: event.route, names: event.names, count: 1 })
      const { route, by = 'none', would, because, ageMs } = event
      const age = ageMs === undefined ? {} : { within_s: boundOf(ageMs) }
      observed.add({ route, by, would, because, ...age, count: 1 })
    },
    include: (view) => {
      for (const row of view.observed) observed.add(row)
      for (const { route, names, count } of view.near_misses) nearMisses.add({ route, names, count })
    },
    view: () => ({
      observed: observed.rows().sort((a, b) => a.route.localeCompare(b.route)),
      near_misses: nearMisses
        .rows()
        .sort((a, b) => b.count - a.count)
        .slice(0, NEAR_MISSES_SHOWN)
        .map((row) => ({ ...row, says: nearMissSays(row) })),
    }),
  }
}

/** Rows that are equal but for their count are one. */
function tally<R extends { readonly count: number }>(rowsMax: number) {
  const known = new Map<string, R>()
  return {
    add: (row: R): void => {
      const key = JSON.stringify({ ...row, count: 0 })
      const before = known.get(key)
      if (before === undefined && known.size >= rowsMax) return
      known.set(key, { ...row, count: row.count + (before?.count ?? 0) })
    },
    rows: () => [...known.values()],
  }
}

function boundOf(ageMs: number): number | 'older' {
  return OBSERVED_AGES_S.find((upToS) => ageMs <= upToS * 1_000) ?? 'older'
}

/** Ignored, one user could get the answer of another. */
const MAY_SAY_WHO = /^cookie:|auth|token|session|key|user|client|account|tenant|login/i

function nearMissSays({ route, names, count }: NearMissRow): string {
  const shown = names.map((name) => `\`${name}\``).join(', ')
  const seen = `${count} ${count === 1 ? 'pair' : 'pairs'} on \`${route}\` differed only in ${shown}`
  return names.some((name) => MAY_SAY_WHO.test(name))
    ? `${seen}: that may be two users, who stay two; ignore it only where it says nothing of who asks`
    : `${seen}: if that changes between tries, ignore it: \`fingerprint: { ignore: [${names.join(', ')}] }\``
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

const KEYED: Readonly<Record<ObservedRow['by'], string>> = {
  key: 'by key',
  content: 'by content, without a key',
  none: 'with neither',
}

/** For each route, and what would have been the key, a paragraph. */
export function observedSays(all: readonly ObservedRow[]): readonly (readonly string[])[] {
  return [...Map.groupBy(all, ({ route, by }) => `${route}, ${KEYED[by]}`)].map(([of, rows]) => {
    const because = sums(
      rows.filter(({ would }) => would === 'refused' || would === 'unknown'),
      (row) => row.because,
    )
    const would = sums(rows, (row) => row.would)
    const aged = rows.filter(({ within_s }) => within_s !== undefined)
    return [
      `${of}: ${total(rows)} requests would have been`,
      ...WOULD.flatMap((word) => {
        const count = would.get(word)
        return count === undefined ? [] : [`  ${String(count).padStart(9)}  ${SAYS[word]}`]
      }),
      ...(because.size === 0
        ? []
        : [
            `  of those refused or unknown: ${[...because].map(([why, count]) => `${count} ${why}`).join(', ')}`,
          ]),
      ...(aged.length === 0 ? [] : [`  ages of what would have been replayed: ${agesOf(aged)}`]),
    ]
  })
}

function sums<K>(rows: readonly ObservedRow[], of: (row: ObservedRow) => K): ReadonlyMap<K, number> {
  return new Map([...Map.groupBy(rows, of)].map(([name, some]) => [name, total(some)]))
}

function total(rows: readonly ObservedRow[]): number {
  return rows.reduce((sum, { count }) => sum + count, 0)
}

function agesOf(rows: readonly ObservedRow[]): string {
  const older = total(rows.filter(({ within_s }) => within_s === 'older'))
  const bounds = OBSERVED_AGES_S.filter((upToS) => rows.some(({ within_s }) => within_s === upToS))
  const shown = bounds.map((upToS) => {
    const within = total(rows.filter(({ within_s }) => typeof within_s === 'number' && within_s <= upToS))
    return `${Math.floor((100 * within) / total(rows))} % at most ${upToS} s`
  })
  return [...shown, ...(older > 0 ? [`${older} older`] : [])].join(', ')
}
