/**
 * One record as an operator is shown it: once, or watched while a page shows it.
 *
 * Owns what is read for it and how often. A watched record costs its quorum one read every two seconds, however many readers
 * watch it in one role; the audit log, of which every node sends thousands of entries, is read where the record changed.
 */

import type { Clock } from '../../core/clock.ts'
import type { AuditLog } from '../../core/coordination/audit-log.ts'
import type { OperatorRole } from '../../core/operator/operator-tokens.ts'
import type { RecordView } from '../../core/operator/record-view.ts'
import type { Topic } from './event-streams.ts'
import { historyOf, type RecordHistory, shownRecord } from './shown.ts'

export type ShowingPorts = {
  readonly inspect: (recordKey: string) => Promise<RecordView>
  readonly auditLog: AuditLog
  readonly clock: Clock
  readonly isHeldHere: (recordKey: string) => boolean
  /** The name of the sidecar that holds a record as this owner; undefined where the nodes don't know. */
  readonly sidecarOf: (recordKey: string, owner: string) => Promise<string | undefined>
}

/** What is known of a record besides its replies. */
type Besides = { readonly history: RecordHistory | undefined; readonly sidecar: string | undefined }

type Showing = {
  shown(view: RecordView, role: OperatorRole): Promise<unknown>
  watched(recordKey: string, role: OperatorRole): Topic
}

/** From the end of a look to the next. */
const RECORD_EVERY_MS = 2_000
/** Of a record that stays as it is: entries come without a change, such as the sweeper's question. */
const BESIDES_EVERY_MS = 30_000

export function createShowing(instance: string, ports: ShowingPorts): Showing {
  const { inspect, auditLog, clock } = ports
  const sidecarOf = async ({ recordKey, state, owner }: RecordView) => {
    if (state !== 'live' || owner === undefined) return undefined
    return ports.isHeldHere(recordKey) ? instance : ports.sidecarOf(recordKey, owner)
  }
  const besidesOf = async (view: RecordView): Promise<Besides> => ({
    history: await historyOf(view.recordKey, auditLog),
    sidecar: await sidecarOf(view),
  })
  const asShown = (view: RecordView, role: OperatorRole, besides: Besides) =>
    shownRecord(view, { role, wallMs: clock.wallMs(), ...besides })
  return {
    shown: async (view, role) => asShown(view, role, await besidesOf(view)),
    watched: (recordKey, role) => {
      let before: string | undefined
      let besides: Besides = { history: undefined, sidecar: undefined }
      let besidesDueMonoMs = 0
      return {
        everyMs: RECORD_EVERY_MS,
        look: async () => {
          const view = await inspect(recordKey)
          const standing = standingOf(view)
          const nowMonoMs = clock.monoMs()
          if (standing !== before || nowMonoMs >= besidesDueMonoMs) {
            besides = await besidesOf(view)
            // A decision is noted once more after it changed the record: the next look reads that, too.
            besidesDueMonoMs = standing === before ? nowMonoMs + BESIDES_EVERY_MS : nowMonoMs
            before = standing
          }
          // Of a live claim the lease is what an operator watches: is its holder still there?
          const lease = view.state === 'live' ? nowMonoMs : undefined
          return {
            version: JSON.stringify([standing, lease, besides]),
            event: () => asShown(view, role, besides),
          }
        },
      }
    },
  }
}

/** All that is shown of a record but what passes with the time. */
function standingOf(view: RecordView): string {
  const { state, token, attempt, fingerprint, owner, minorityOutcome, outcome } = view
  const rows = view.nodes.map(({ leaseRemainingMs: _, retentionRemainingMs: __, ...row }) => row)
  // Another outcome is recorded under another token, or on another node.
  return JSON.stringify([
    state,
    token,
    attempt,
    fingerprint,
    owner,
    minorityOutcome,
    outcome?.completedAtWallMs,
    rows,
  ])
}
