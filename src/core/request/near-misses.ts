/**
 * Near misses: two requests of one route, executed within a minute, that were equal but for some headers or cookies. Where these change
 * between two tries of one request, each try is executed, and the route should ignore them.
 *
 * Owns what is remembered, and for how long: of each content the last execution, its names, and of its values digests with a key of this
 * process. Nothing here decides about a request. Pure; docs/reference/fingerprint.md says what counts.
 */

import { hash } from 'node:crypto'
import { frameText } from '../formats/framing.ts'
import type { ProtectedRoute } from '../routes/route.ts'
import type { CountedHeaders } from './counted-headers.ts'
import type { Fingerprinted } from './fingerprint.ts'

const REMEMBERED_MS = 60_000
const REMEMBERED_MAX = 1_000
/** A request with more of them is left out. */
const PARTS_MAX = 64
/** Requests that differ in more are two. */
const NAMES_MAX = 3
/** Enough to tell two values apart, and too little to find one. */
const DIGEST_CHARS = 8

/** What of a request that its content identifies counted, by name. */
export type CountedContent = {
  readonly printed: Pick<Fingerprinted, 'components'>
  readonly headers: CountedHeaders
  readonly principal: string
}

export type NearMisses = {
  /** @returns the names in which it differs from the one before it; undefined where it is no near miss */
  executed(route: ProtectedRoute, content: CountedContent, monoMs: number): readonly string[] | undefined
}

type Remembered = { readonly untilMonoMs: number; readonly parts: ReadonlyMap<string, string> }

/** @param secret of this process */
export function createNearMisses(secret: string): NearMisses {
  /** The oldest first. */
  const known = new Map<string, Remembered>()
  const digest = (text: string) => hash('sha256', secret + text, 'base64url')

  function forget(nowMs: number): void {
    for (const [content, { untilMonoMs }] of known) {
      if (untilMonoMs > nowMs && known.size < REMEMBERED_MAX) return
      known.delete(content)
    }
  }

  return {
    executed(route, { printed, headers, principal }, monoMs) {
      const named = partsOf(route, headers, principal)
      if (named.length > PARTS_MAX) return undefined
      const equal = printed.components.flatMap(({ name, byteText }) =>
        name === 'principal' || name === 'headers' ? [] : [byteText],
      )
      const content = digest(frameText([route.name, ...equal]))
      const parts = new Map(
        named.map(([name, ...values]) => [name, digest(JSON.stringify(values)).slice(0, DIGEST_CHARS)]),
      )
      const before = known.get(content)
      known.delete(content)
      forget(monoMs)
      known.set(content, { untilMonoMs: monoMs + REMEMBERED_MS, parts })
      if (before === undefined || before.untilMonoMs <= monoMs) return undefined
      const names = [...new Set([...before.parts.keys(), ...parts.keys()])]
        .filter((name) => before.parts.get(name) !== parts.get(name))
        .sort()
      return names.length === 0 || names.length > NAMES_MAX ? undefined : names
    },
  }
}

/** Each with its name as `fingerprint.ignore` takes it; of who asks, the header that the route knows clients by. */
function partsOf(
  { principal: source }: ProtectedRoute,
  headers: CountedHeaders,
  principal: string,
): readonly (readonly [string, ...string[]])[] {
  const who = source.kind === 'header' ? source.name : 'authorization'
  const counted = headers.flatMap(([name = '', ...lines]): readonly (readonly [string, ...string[]])[] =>
    name === 'cookie'
      ? lines.flatMap((line) =>
          line.split('; ').map((pair) => [`cookie:${pair.split('=', 1)[0]}`, pair] as const),
        )
      : [[name, ...lines]],
  )
  return [[who, principal], ...counted.filter(([name]) => name !== who)]
}
