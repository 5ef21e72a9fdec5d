/**
 * Settles the application's answer: the outcome that the client gets, and the fate of the lease.
 *
 * Owns the decision, and offers the outcome to the nodes while the client waits. It ends no lease: the fate is a value,
 * which `deduplicate.ts` applies for every way in which a request can end.
 */

import type { LeaseRenewer } from './claims/lease-renewer.ts'
import { type RecordingPorts, recordWithRetry } from './claims/recording.ts'
import type { LeaseEnd } from './events.ts'
import { type Executed, type Outcome, replay } from './outcome.ts'
import type { ApplicationResponse, PassedBody } from './ports.ts'
import type { StoredOutcome } from './record/stored-outcome.ts'
import { dispositionOf, type StoringPolicy, storedOutcomeOf } from './routes/settlement.ts'

/** How a lease ends: at once; or, handed over with the outcome still to be recorded, when that is; or as an answer that is passing on does. */
export type LeaseFate =
  | LeaseEnd
  | { readonly stillToRecord: StoredOutcome }
  | { readonly passing: Promise<'released' | 'abandoned' | StoredOutcome> }

export type Settled = { readonly outcome: Outcome; readonly lease: LeaseFate }

export type SettlePolicy = StoringPolicy & {
  readonly leaseMs: number
  /** How long the outcome is offered to the quorum before the client gets its answer marked `unstored`. */
  readonly settleBudgetMs: number
}

export async function settle(
  response: ApplicationResponse,
  executed: Executed,
  policy: SettlePolicy,
  renewer: LeaseRenewer,
  ports: RecordingPorts,
): Promise<Settled> {
  switch (dispositionOf(response, policy, executed.execution.attempt)) {
    case 'hold':
      return { outcome: { kind: 'unstored', response, ...executed }, lease: 'abandoned' }
    case 'unknown': {
      const { execution } = executed
      return { outcome: { kind: 'indeterminate', cause: 'answer', response, execution }, lease: 'abandoned' }
    }
    case 'release':
      return { outcome: { kind: 'released', response, ...executed }, lease: 'released' }
    case 'store': {
      const whole = response.oversized?.whole
      if (whole === undefined) return record(response, executed, policy, renewer, ports)
      // What the end of it says counts (`dispositionOf` of gRPC-Web), so nothing is recorded before.
      const passing = whole.then((body) => ofPassed(body, response, executed, policy, ports))
      return { outcome: { kind: 'unstored', response, ...executed }, lease: { passing } }
    }
  }
}

function ofPassed(
  body: PassedBody,
  response: ApplicationResponse,
  { execution }: Executed,
  policy: SettlePolicy,
  { clock }: Pick<RecordingPorts, 'clock'>,
): 'released' | 'abandoned' | StoredOutcome {
  if (body === 'cut') return 'abandoned'
  const { status, headers } = response
  const passed = body === 'too_long' ? response : { status, headers, body }
  const disposition = dispositionOf(passed, policy, execution.attempt)
  if (disposition === 'store') return storedOutcomeOf(passed, policy, clock.wallMs())
  return disposition === 'release' ? 'released' : 'abandoned'
}

/** The client gets the answer only where a majority holds it, or marked as unstored. */
async function record(
  response: ApplicationResponse,
  executed: Executed,
  policy: SettlePolicy,
  renewer: LeaseRenewer,
  ports: RecordingPorts,
): Promise<Settled> {
  const stored = storedOutcomeOf(response, policy, ports.clock.wallMs())
  const result = await recordWithRetry(stored, policy.settleBudgetMs, renewer, ports)
  switch (result.kind) {
    case 'recorded':
      return { outcome: { kind: 'created', response, ...executed }, lease: 'completed' }
    case 'fenced': {
      // A later holder's outcome is the truth; ours must not reach the client beside it.
      const { winner } = result
      const outcome = winner === undefined ? inProgress(policy) : replay(winner.outcome, winner.token)
      return { outcome, lease: 'lost' }
    }
    case 'undecided':
      // A later claim may make ours the truth, or its own. Until then neither "stored" nor "without effect" is true.
      return { outcome: inProgress(policy), lease: 'lost' }
    case 'unavailable':
      return { outcome: { kind: 'unstored', response, ...executed }, lease: { stillToRecord: stored } }
  }
}

function inProgress({ leaseMs }: SettlePolicy): Outcome {
  return { kind: 'in_progress', retryAfterMs: leaseMs }
}
