/**
 * The newest decisions of this process, for an operator who asks minutes later: bounded, and sampled under load.
 *
 * Owns the bound and the sample. What is refused is kept before what went well: nobody asks about a request that was
 * answered. Besides the event it keeps the key of the record, which the event only has the hash of.
 */

import type { DecidedEvent } from '../decision.ts'
import type { CoreEvent } from '../events.ts'
import { percentEncode } from '../formats/framing.ts'
import type { Scope } from '../request/identity.ts'

type RecentDecision = {
  readonly atWallMs: number
  readonly event: DecidedEvent
  readonly recordKey: string | undefined
}

export type RecentDecisions = {
  readonly observe: (event: CoreEvent) => void
  readonly newest: (
    limit: number,
    only: {
      readonly tenant?: string | undefined
      readonly keyHash?: string | undefined
      readonly decision?: string | undefined
    },
  ) => { readonly sampled: boolean; readonly decisions: readonly RecentDecision[] }
  /** The record of the answer with this `instance`. */
  readonly recordOf: (instance: string) => string | undefined
  readonly recordsWith: (digits: string) => readonly string[]
}

/** Some 500 bytes each. */
const RECENT_DECISIONS_MAX = 2_000
/** Of those that went well: beyond it within one second they are left out. */
const WELL_PER_SECOND = 20

export function createRecentDecisions(
  { env, apiVersion }: Pick<Scope, 'env' | 'apiVersion'>,
  wallMs: () => number,
): RecentDecisions {
  let kept: RecentDecision[] = []
  let sampled = false
  let second = 0
  let wellThisSecond = 0

  function isLeftOut(event: DecidedEvent, atWallMs: number): boolean {
    if (event.status >= 400) return false
    const now = Math.floor(atWallMs / 1_000)
    if (now !== second) [second, wellThisSecond] = [now, 0]
    wellThisSecond += 1
    return wellThisSecond > WELL_PER_SECOND
  }

  /** Undefined where its API version is not the configured one, which the event does not say. */
  function recordKeyOf({ tenant, keyHash }: DecidedEvent): string | undefined {
    if (tenant === undefined || keyHash?.length !== 64) return undefined
    const scope = [tenant, env, apiVersion].map((part) => percentEncode(part) ?? '')
    return `dedup:${scope.join(':')}:${keyHash}`
  }

  return {
    observe: (event) => {
      if (event.kind !== 'decided') return
      const atWallMs = wallMs()
      if (isLeftOut(event, atWallMs)) {
        sampled = true
        return
      }
      kept.push({ atWallMs, event, recordKey: recordKeyOf(event) })
      // Dropped in lots, so that each costs nothing.
      if (kept.length > RECENT_DECISIONS_MAX * 1.25) kept = kept.slice(-RECENT_DECISIONS_MAX)
    },
    newest: (limit, { tenant, keyHash, decision }) => ({
      sampled,
      decisions: kept
        .filter(
          ({ event }) =>
            (tenant === undefined || event.tenant === tenant) &&
            (keyHash === undefined || event.keyHash?.startsWith(keyHash) === true) &&
            (decision === undefined || event.decision === decision),
        )
        .slice(-limit)
        .reverse(),
    }),
    recordOf: (instance) => kept.findLast(({ event }) => event.instance === instance)?.recordKey,
    recordsWith: (digits) => [
      ...new Set(
        kept.flatMap(({ event, recordKey }) =>
          recordKey !== undefined && event.keyHash?.startsWith(digits) ? [recordKey] : [],
        ),
      ),
    ],
  }
}
