/**
 * Ends the wait for a claim when its budget is over, whatever the nodes do.
 *
 * A round on hung nodes takes their whole deadline, and so does withdrawing it: without this, a caller waited for several of both.
 * The claim goes on without its caller. What it is granted then is withdrawn, because nobody works under it.
 *
 * Owns the deadline alone. Inside the quorum breaker, so that a claim that was cut short counts as what it is.
 */

import type { Background } from '../background.ts'
import type { Clock } from '../clock.ts'
import type { ClaimRequest, ClaimResult, Leases } from '../ports.ts'
import { CONTENDED } from './claim.ts'

type ClaimDeadlineOptions = {
  /** A majority. */
  readonly required: number
  readonly clock: Clock
  /** Has the claims that outlive their callers, without a limit: a process that stops waits until they are withdrawn. */
  readonly lateClaims: Background
}

export function withClaimDeadline(leases: Leases, options: ClaimDeadlineOptions): Leases {
  return { ...leases, claim: (request) => claimInTime(leases, request, options) }
}

function claimInTime(
  leases: Leases,
  request: ClaimRequest,
  { clock, required, lateClaims }: ClaimDeadlineOptions,
): Promise<ClaimResult> {
  let heard = { answered: 0, well: 0 }
  const onHeard = (answered: number, well: number) => {
    heard = { answered, well }
  }
  const claiming = leases.claim({ ...request, onHeard })
  return new Promise((resolve, reject) => {
    const end = () => {
      const { answered, well } = heard
      resolve(
        answered < required
          ? { kind: 'unavailable', answered, required, ...(well === 0 ? {} : { well }) }
          : { ...CONTENDED, answered },
      )
      lateClaims.start(async () => {
        const result = await claiming
        if (result.kind === 'granted') await leases.abortClaim(result.lease)
      })
    }
    // Timers run before sockets are read: after a stall of our own loop the answers may be there already, and are read first.
    let timer = clock.timer(request.budgetMs, () => {
      timer = clock.timer(0, end)
    })
    // Cancelled first: a grant is either the caller's or withdrawn.
    claiming.then(
      (result) => {
        timer.cancel()
        resolve(result)
      },
      (cause) => {
        timer.cancel()
        reject(cause)
      },
    )
  })
}
