/**
 * What protecting a request would have done, without doing it: the algorithm of `deduplicate.ts` runs beside the request, which is
 * executed whatever it finds.
 *
 * Owns how its end reads, and what it leaves on the nodes. Its records have keys of their own, so that enforcing replays nothing that
 * was only observed; of an answer they keep the status and a digest. A concurrent duplicate is not waited for, and entities are not locked.
 */

import type { Observation, Would } from './decision.ts'
import { deduplicate } from './deduplicate.ts'
import type { Outcome } from './outcome.ts'
import type { ForwardContext, ForwardResult } from './ports.ts'
import type { DedupPolicy, DedupPorts, ProtectedRequest } from './protected-request.ts'
import type { StoredOutcome } from './record/stored-outcome.ts'
import { observedKeyOf } from './request/identity.ts'
import { dispositionOf, OUTCOME_HEADER } from './routes/settlement.ts'

/** @property digest of the body, which is empty here where it was passed on as a stream */
export type ObservedAnswer =
  | Exclude<ForwardResult, { kind: 'answered' }>
  | (Extract<ForwardResult, { kind: 'answered' }> & { readonly digest: Buffer })

/** @property answered resolves when the application's answer has ended, and never rejects */
type ObservedRequest = Pick<ProtectedRequest, 'recordKey' | 'fingerprint' | 'contentRecord' | 'policy'> & {
  readonly answered: Promise<ObservedAnswer>
}

export async function observe(request: ObservedRequest, ports: DedupPorts): Promise<Observation> {
  const { recordKey, fingerprint, contentRecord: content, policy, answered } = request
  let executed = false
  const forward = async (context: ForwardContext | undefined): Promise<ForwardResult> => {
    executed = true
    return settledBy(await answered, policy, context?.attempt)
  }
  const outcome = await deduplicate(
    {
      recordKey: observedKeyOf(recordKey),
      fingerprint,
      contentRecord: content && { ...content, recordKey: observedKeyOf(content.recordKey) },
      policy: {
        ...policy,
        waitMs: 0,
        onQuorumLoss: 'fail-closed',
        store: {},
        storedHeaders: [],
        bodyStorage: 'full',
        redact: [],
      },
      forward,
    },
    { ...ports, fairQueue: undefined },
  )
  const because = outcome.kind
  if (executed) return { would: 'executed', because }
  const would = wouldOf(outcome)
  if (outcome.kind !== 'replayed') return { would, because }
  const { stored } = outcome
  const ageMs = Math.max(0, ports.clock.wallMs() - stored.completedAtWallMs)
  return { would: isSame(stored, await answered) ? would : 'replayed_other', because, ageMs }
}

/** The route decides by the answer what of it would be kept; its verdict and the digest are all that is left of it. */
function settledBy(result: ObservedAnswer, policy: DedupPolicy, attempt: number | undefined): ForwardResult {
  if (result.kind !== 'answered') return result
  const { status } = result.response
  const disposition = dispositionOf(result.response, policy, attempt)
  return disposition === 'unknown'
    ? { kind: 'no_answer', cause: 'malformed', detail: 'the answer does not say whether it was executed' }
    : {
        kind: 'answered',
        response: { status, headers: [[OUTCOME_HEADER, disposition]], body: result.digest },
      }
}

function isSame(stored: StoredOutcome, now: ObservedAnswer): boolean {
  return (
    stored.kind === 'response' &&
    now.kind === 'answered' &&
    stored.status === now.response.status &&
    stored.body.equals(now.digest)
  )
}

/** Of a request that would not have been executed. */
function wouldOf({ kind }: Outcome): Would {
  switch (kind) {
    case 'replayed':
    case 'gone':
      return 'replayed'
    case 'in_progress':
    case 'too_many_waiters':
    case 'entity_busy':
      return 'waited'
    case 'mismatch':
    case 'duplicate_content':
    case 'undecided':
      return 'refused'
    case 'unavailable':
    case 'damaged':
    case 'unprotected':
    case 'unprotected_no_answer':
    // Without an execution there are none of these.
    case 'created':
    case 'released':
    case 'unstored':
    case 'indeterminate':
    case 'never_sent':
      return 'unknown'
  }
}
