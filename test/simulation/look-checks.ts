/**
 * The checkers of reads.
 *
 * Owns the judgement only, like `checks.ts`.
 */

import type { ReadResult } from '../../src/core/ports.ts'
import { NO_OWNER } from '../../src/core/record/record.ts'
import { type Grant, type History, isHeldThrough, type Looked, rememberedUntilMs } from './history.ts'
import { contentOf } from './sidecar.ts'

/**
 * R1 and R2: a read contradicts nothing that was acknowledged before it began. R3: nor does it report an older claim than
 * one of them. R4: it reports no claim as expired that is held when it answers, or that is granted afterwards.
 */
export function checkLooks(history: History): void {
  for (const looked of history.looked) {
    const { key, askedMs, answeredMs, result } = looked
    const { kind } = result
    if (kind === 'unavailable' || kind === 'damaged') continue
    const known = history.shown.find((shown) => shown.key === key && shown.atMs < askedMs)
    if (known !== undefined && history.isKept(known, answeredMs)) {
      // S6 judges another outcome than this one.
      if (kind !== 'completed')
        wrong(history, looked, 'R1', `although ${known.content} was ${known.by} at ${known.atMs.toFixed(2)}`)
      continue
    }
    for (const grant of history.grants) {
      if (grant.lease.key !== key) continue
      checkExpired(history, looked, grant)
      if (grant.grantedMs >= askedMs) continue
      checkToken(history, looked, grant)
      if (grant.releasedMs !== undefined && grant.releasedMs < askedMs) checkGivenBack(history, looked, grant)
      else if (isHeldThrough(grant, askedMs, answeredMs)) checkHeld(history, looked, grant)
    }
  }
}

function checkHeld(history: History, looked: Looked, grant: Grant): void {
  const { result, answeredMs } = looked
  const offered = grant.offeredMs !== undefined && grant.offeredMs < answeredMs
  const held = `while ${grant.process} held it under token ${grant.lease.token}`
  switch (result.kind) {
    case 'absent':
    case 'released':
      wrong(history, looked, 'R2', held)
      return
    case 'claimed':
      if (!offered && result.owner !== grant.lease.owner) wrong(history, looked, 'R2', held)
      else if (!offered && result.remainingMs === 0) wrong(history, looked, 'R2', `as expired, ${held}`)
      return
    case 'completed':
      if (!offered) wrong(history, looked, 'R2', held)
      return
    default:
      return
  }
}

function checkGivenBack(history: History, looked: Looked, { lease, process }: Grant): void {
  const { result } = looked
  if (result.kind !== 'claimed' || result.remainingMs === 0) return
  if (result.owner === lease.owner && result.token === lease.token)
    wrong(history, looked, 'R2', `although ${process} had given it back`)
}

/** The lease that a read shows, even an expired one, is the last: the application is asked about that execution. */
function checkToken(history: History, looked: Looked, grant: Grant): void {
  const { result, answeredMs } = looked
  if (result.kind !== 'claimed' || result.token >= grant.lease.token) return
  if (rememberedUntilMs(grant) < answeredMs) return
  wrong(history, looked, 'R3', `although ${grant.process} had been granted ${grant.lease.token}`)
}

/** The application would be asked what became of an execution that has not ended, or not begun. */
function checkExpired(history: History, looked: Looked, grant: Grant): void {
  const { result, answeredMs } = looked
  const { lease, grantedMs, process, offeredMs } = grant
  if (result.kind !== 'claimed' || result.remainingMs > 0 || result.token !== lease.token) return
  if (result.owner !== lease.owner && result.owner !== NO_OWNER) return
  const heldMs = Math.max(grantedMs, answeredMs)
  // A lease that expired and was renewed since may be reported as it was when the read began.
  if ((offeredMs === undefined || offeredMs > heldMs) && isHeldThrough(grant, grantedMs, heldMs))
    wrong(history, looked, 'R4', `although ${process} holds it from ${grantedMs.toFixed(2)}`)
}

function wrong(history: History, looked: Looked, invariant: string, why: string): void {
  const { key, process, answeredMs, result } = looked
  history.violated(invariant, answeredMs, `${process} was told that ${key} is ${describe(result)}, ${why}`)
}

function describe(result: ReadResult): string {
  switch (result.kind) {
    case 'claimed':
      return `claimed under token ${result.token}, ${result.remainingMs.toFixed(0)} ms left`
    case 'completed':
      return `completed with ${contentOf(result.outcome)}`
    default:
      return result.kind
  }
}

/** C1: an outcome that was refused for good never stands later. C2: nor was it the recorded one when it was offered again. */
export function checkRefusals(history: History): void {
  for (const { key, content, process, askedMs, atMs } of history.refused) {
    for (const shown of history.shown) {
      if (shown.key !== key || shown.content !== content || !history.isKept(shown, atMs)) continue
      const again = shown.atMs < askedMs
      history.violated(
        again ? 'C2' : 'C1',
        Math.max(atMs, shown.atMs),
        `${process} was told at ${atMs.toFixed(2)} that ${content} of ${key} has no effect, and it was ${shown.by} at ${shown.atMs.toFixed(2)}`,
      )
      break
    }
  }
}
