/**
 * Whether a route is never reached, because one before it takes each of its requests.
 *
 * Owns this comparison of two conditions. It finds a route that one other covers, and not one that several cover together.
 */

import type { PathPattern, Segment } from './path-pattern.ts'
import type { HeaderPredicate, RouteMatch } from './route.ts'

/** Each request that `later` matches, in each reading of its path, `earlier` matches too. */
export function covers(earlier: RouteMatch, later: RouteMatch): boolean {
  return (
    all(later.methods, earlier.methods, (own, other) => own === other) &&
    all(later.hosts, earlier.hosts, coversHost) &&
    all(later.paths, earlier.paths, coversPath) &&
    (earlier.body === undefined || earlier.body === later.body) &&
    (earlier.headers ?? []).every((one) => later.headers?.some((other) => implies(other, one)) === true)
  )
}

/** No `wide` list is no condition. */
function all<T>(
  narrow: readonly T[] | undefined,
  wide: readonly T[] | undefined,
  covering: (wide: T, narrow: T) => boolean,
): boolean {
  if (wide === undefined) return true
  return narrow?.every((one) => wide.some((other) => covering(other, one))) === true
}

function coversHost(wide: string, narrow: string): boolean {
  return wide === narrow || (wide.startsWith('*.') && narrow.endsWith(wide.slice(1)))
}

function coversPath({ segments: wide }: PathPattern, { segments: narrow }: PathPattern): boolean {
  const endsWithRest = wide.at(-1)?.kind === 'rest'
  const fixed = endsWithRest ? wide.slice(0, -1) : wide
  if (endsWithRest ? narrow.length < fixed.length : narrow.length !== fixed.length) return false
  return fixed.every((segment, index) => coversSegment(segment, narrow[index]!))
}

function coversSegment(wide: Segment, narrow: Segment): boolean {
  if (narrow.kind === 'rest') return false
  return wide.kind !== 'literal' || (narrow.kind === 'literal' && narrow.text === wide.text)
}

function implies(given: HeaderPredicate, wanted: HeaderPredicate): boolean {
  if (given.name !== wanted.name) return false
  if (wanted.kind === 'present') return given.kind !== 'absent'
  if (wanted.kind === 'absent' || given.kind !== wanted.kind) return given.kind === wanted.kind
  return given.value === wanted.value
}
