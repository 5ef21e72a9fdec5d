/**
 * Carries out one decision of an operator about one record.
 *
 * Owns the order: look, compare with what the operator saw, rule, write down who decides and why, lock, look again,
 * rule again, act, write down what came of it. Nothing is decided that could not be written down first, and no node is
 * written to but by the commands of the record protocol.
 */

import type { Clock } from '../clock.ts'
import type { AuditLog } from '../coordination/audit-log.ts'
import {
  concludeOrphan,
  type DecisionTerms,
  executedOutcome,
  forgetOrphan,
  lastingAs,
  type Orphan,
  type OrphanSettled,
  type SettleReply,
  type Verdict,
  verdictOf,
} from '../coordination/settle-orphan.ts'
import type { Lease, Leases } from '../ports.ts'
import type { StoredOutcome } from '../record/stored-outcome.ts'
import type { Token } from '../record/token.ts'
import { type DecisionKind, type EvenThough, operatorNote, type Ruling, rulingOn } from './decision-rules.ts'
import type { RecordView } from './record-view.ts'
import {
  claimAfterForgetting,
  endLiveClaim,
  isForgottenEverywhere,
  lockDecision,
  releaseAbove,
  renewLockWithHigherToken,
  replaceOutcome,
  showsSeveralOutcomes,
} from './take-over.ts'

export type DecisionRequest = {
  readonly decision: DecisionKind
  readonly recordKey: string
  /** Name of the person or tool. */
  readonly by: string
  readonly reason: string
  readonly dryRun: boolean
  readonly evenThough?: EvenThough
  /** The token that the operator saw: if the record has another one by now, it has moved on. */
  readonly expectedToken?: Token
  /** Of `complete`. */
  readonly outcome?: StoredOutcome
}

export type DecisionPorts = {
  readonly inspect: (recordKey: string) => Promise<RecordView>
  readonly leases: Leases
  readonly auditLog: AuditLog
  readonly terms: DecisionTerms
  readonly clock: Clock
  /** Undefined where no path is configured. */
  readonly ask: ((orphan: Orphan) => Promise<SettleReply>) | undefined
  /** This process answers duplicates from memory. */
  readonly forgetHere: (recordKey: string) => void
}

export type Decided =
  | { readonly kind: 'would'; readonly ruling: Possible; readonly view: RecordView }
  | {
      readonly kind: 'done'
      readonly ruling: Possible
      readonly before: RecordView
      readonly after: RecordView
      /** Of `ask`. */
      readonly verdict?: Verdict
      /** False: it was decided, and too few nodes took the note of its result; that it was begun is written down. */
      readonly audited: boolean
    }
  | { readonly kind: 'refused'; readonly because: string; readonly view: RecordView }
  /** Possible, if the broken promise is said out. */
  | {
      readonly kind: 'must_say'
      readonly breaks: EvenThough
      readonly ruling: Possible
      readonly view: RecordView
    }
  | { readonly kind: 'moved_on'; readonly because: string; readonly view: RecordView }
  | { readonly kind: 'busy' }
  | { readonly kind: 'cannot_ask' }
  | { readonly kind: 'unavailable'; readonly because: string; readonly begun: boolean }

type Possible = Extract<Ruling, { kind: 'possible' }>

export async function decide(request: DecisionRequest, ports: DecisionPorts): Promise<Decided> {
  const { decision, recordKey } = request
  if (decision === 'ask' && ports.ask === undefined) return { kind: 'cannot_ask' }
  const seen = ruledOn(request, await ports.inspect(recordKey))
  if (seen.kind !== 'would' || request.dryRun) return seen
  const noted = await note(request, seen.view, 'begun', ports)
  if (!noted)
    return {
      kind: 'unavailable',
      begun: false,
      because: 'Too few nodes took the note of who decides and why. Nothing was decided.',
    }
  const lock = await lockDecision(seen.view, ports.terms, ports.leases)
  if (lock.kind !== 'locked') {
    await note(request, seen.view, lock.kind, ports)
    if (lock.kind === 'busy') return { kind: 'busy' }
    return { kind: 'unavailable', begun: false, because: 'Too few nodes replied. Nothing was decided.' }
  }
  let held = lock.lease
  try {
    let decided = await decideLocked(request, held, ports)
    if (decided.kind === 'levelled') {
      const raised = await renewLockWithHigherToken(held, decided.view, ports.leases)
      held = raised ?? held
      decided = raised === undefined ? NOT_FORGOTTEN : await forgetLevelled(request, decided, raised, ports)
    }
    const audited = await note(request, seen.view, wordOf(decided), ports)
    return decided.kind === 'done' ? { ...decided, audited } : decided
  } finally {
    await ports.leases.release(held)
  }
}

/** The present outcome is known by the token that it was written to every node under. */
async function forgetLevelled(
  request: DecisionRequest,
  { token: expectedToken }: Levelled,
  lock: Lease,
  ports: DecisionPorts,
): Promise<Decided> {
  const decided = await decideLocked({ ...request, expectedToken }, lock, ports)
  if (decided.kind === 'done' || decided.kind === 'moved_on') return decided
  // The outcome was written anew: no result may say that nothing was begun.
  return decided.kind === 'unavailable' && decided.begun ? decided : NOT_FORGOTTEN
}

const NOT_FORGOTTEN = {
  kind: 'unavailable',
  begun: true,
  because:
    'A node kept an earlier outcome, which would come back once the present one is forgotten, so the present one is written to every node first. A node missed that, or somebody came in between. Nothing was forgotten. Decide again.',
} as const

/** Every node was sent the present outcome, under this token; nothing is decided yet. */
type Levelled = { readonly kind: 'levelled'; readonly token: Token; readonly view: RecordView }

/** Under the lock: another operator may have decided since the first look. */
async function decideLocked(
  request: DecisionRequest,
  lock: Lease,
  givenPorts: DecisionPorts,
): Promise<Decided | Levelled> {
  const before = await givenPorts.inspect(request.recordKey)
  // Whatever is written lasts as the record does: each route has a retention of its own, and a record does not name its route.
  const ports = { ...givenPorts, terms: lastingAs(before.retentionRemainingMs, givenPorts.terms) }
  const ruled = ruledOn(request, before)
  if (ruled.kind !== 'would') return ruled
  // Another claimant may have come with a larger token since the lock was raised, or this process stood still for longer
  // than the lock lasts: then another operator may decide by now, and this one looks again.
  const isOver = lock.token <= (before.largestToken ?? 0) || lock.validUntilMonoMs <= ports.clock.monoMs()
  if (isOver) return { kind: 'busy' }
  if (request.decision === 'forget' && showsSeveralOutcomes(before)) return level(before, lock, ports)
  const acted = await act(request, before, lock, ports)
  if (acted.kind === 'unavailable')
    return {
      kind: 'unavailable',
      begun: true,
      because: 'Too few nodes replied, so it is not known whether it took effect. Look at the record again.',
    }
  const after = await ports.inspect(request.recordKey)
  const forgets = before.state === 'completed' && request.decision === 'forget' && acted.kind === 'done'
  if (forgets && !isForgottenEverywhere(before, after, lock))
    return {
      kind: 'unavailable',
      begun: true,
      because:
        'Not every node is known to have forgotten it, and one that has not brings the outcome back. Look at the record again.',
    }
  if (acted.kind === 'moved_on') return { kind: 'moved_on', because: acted.because, view: after }
  const { verdict } = acted
  return {
    kind: 'done',
    ruling: ruled.ruling,
    before,
    after,
    audited: true,
    ...(verdict === undefined ? {} : { verdict }),
  }
}

/**
 * Replaces what is left of an earlier outcome before the present one is forgotten: a node that keeps it, and misses the
 * forgetting, would bring it back.
 */
async function level(view: RecordView, lock: Lease, ports: DecisionPorts): Promise<Decided | Levelled> {
  const { leases, terms } = ports
  if (view.outcome === undefined) throw new Error(`${view.recordKey} is ${view.state} without an outcome`)
  const written = await replaceOutcome(view, view.outcome, lock, terms, leases)
  ports.forgetHere(view.recordKey)
  if (written !== 'done') return NOT_FORGOTTEN
  return { kind: 'levelled', token: lock.token, view: await ports.inspect(view.recordKey) }
}

function ruledOn(request: DecisionRequest, view: RecordView): Exclude<Decided, { kind: 'done' }> {
  const { decision, evenThough, expectedToken } = request
  if (expectedToken !== undefined && view.state !== 'unknown' && view.token !== expectedToken)
    return {
      kind: 'moved_on',
      because: `you saw it under token ${expectedToken}, and it is ${view.state}${view.token === undefined ? '' : ` under token ${view.token}`} by now`,
      view,
    }
  const ruling = rulingOn(decision, view)
  if (ruling.kind === 'unavailable') return { ...ruling, begun: false }
  if (ruling.kind === 'refused') return { ...ruling, view }
  const away = view.nodes.filter(({ state }) => state === 'silent' || state === 'quarantined')
  if (view.state === 'completed' && decision === 'forget' && away.length > 0)
    return {
      kind: 'unavailable',
      begun: false,
      because: `Every node must reply to forget a recorded outcome, and ${away.map(({ node }) => node).join(', ')} did not. Nothing was decided.`,
    }
  const { breaks } = ruling
  // A dry run says what must be said, together with what would happen.
  if (breaks !== undefined && breaks !== evenThough) return { kind: 'must_say', breaks, ruling, view }
  return { kind: 'would', ruling, view }
}

type Acted =
  | { readonly kind: 'done'; readonly verdict?: Verdict }
  | { readonly kind: 'moved_on'; readonly because: string }
  | { readonly kind: 'unavailable' }

async function act(
  request: DecisionRequest,
  view: RecordView,
  lock: Lease,
  ports: DecisionPorts,
): Promise<Acted> {
  const { leases, terms } = ports
  if (view.state === 'completed' || view.state === 'damaged')
    return decideCompleted(request, view, lock, ports)
  if (view.state === 'live') {
    const ended = await endLiveClaim(view, lock, terms, leases)
    ports.forgetHere(view.recordKey)
    if (ended === 'moved_on') return { kind: 'moved_on', because: 'its holder ended it, or another one came' }
    if (ended === 'unavailable' || request.decision === 'end') return { kind: ended }
  }
  // From here on it is an expired claim, under the token of the decision where one was ended.
  const orphan = orphanOf(view, view.state === 'live' ? lock.token : undefined)
  if (request.decision === 'ask') return askNow(orphan, ports)
  const { outcome } = request
  return fromSettled(
    outcome === undefined
      ? await forgetOrphan(orphan, terms, leases)
      : await concludeOrphan(orphan, outcome, terms, leases),
  )
}

async function decideCompleted(
  { outcome }: DecisionRequest,
  view: RecordView,
  lock: Lease,
  { leases, terms, forgetHere }: DecisionPorts,
): Promise<Acted> {
  if (outcome !== undefined) {
    const replaced = await replaceOutcome(view, outcome, lock, terms, leases)
    forgetHere(view.recordKey)
    return { kind: replaced }
  }
  const claimed = await claimAfterForgetting(view, lock, terms, leases)
  forgetHere(view.recordKey)
  if (claimed.kind === 'unavailable') return { kind: 'unavailable' }
  if (claimed.kind === 'duplicate')
    return {
      kind: 'moved_on',
      because: 'a duplicate or a node brought its outcome back meanwhile; decide again',
    }
  // Forgotten, and a request came at once: it is executed as the first of its key.
  if (claimed.kind !== 'granted') return { kind: 'done' }
  return { kind: (await releaseAbove(lock, claimed.lease, leases)) === 'done' ? 'done' : 'unavailable' }
}

async function askNow(orphan: Orphan, { ask, leases, terms, clock }: DecisionPorts): Promise<Acted> {
  const reply = (await ask?.(orphan)) ?? 'unknown'
  const verdict = verdictOf(reply)
  if (verdict === 'unknown') return { kind: 'done', verdict }
  const acted = fromSettled(
    verdict === 'released'
      ? await forgetOrphan(orphan, terms, leases)
      : await concludeOrphan(orphan, executedOutcome(reply, clock.wallMs()), terms, leases),
  )
  return acted.kind === 'done' ? { ...acted, verdict } : acted
}

function orphanOf(
  { recordKey, fingerprint = '', attempt = 1, token = 0 }: RecordView,
  ended?: Token,
): Orphan {
  return { recordKey, fingerprint, attempt, token: ended ?? token }
}

const MOVED_ON: Record<Extract<OrphanSettled, { kind: 'not_an_orphan' }>['because'], string> = {
  held: 'another attempt holds it by now',
  duplicate: 'it has an outcome by now',
  mismatch: 'another request has its key by now',
  damaged: 'what is stored can not be read',
  fenced: 'another attempt came in between',
  'a later attempt': 'a later attempt ended without an outcome, too',
}

function fromSettled(settled: OrphanSettled): Acted {
  if (settled.kind === 'settled') return { kind: 'done' }
  return settled.kind === 'unavailable' ? settled : { kind: 'moved_on', because: MOVED_ON[settled.because] }
}

function wordOf(decided: Decided): string {
  if (decided.kind === 'done') return decided.verdict === undefined ? 'done' : `done: ${decided.verdict}`
  return 'because' in decided ? `${decided.kind}: ${decided.because}` : decided.kind
}

/** Who, why, about what state, and how far it came. */
async function note(
  { decision, recordKey, by, reason, evenThough }: DecisionRequest,
  { state, token, attempt }: RecordView,
  step: string,
  { auditLog, clock }: DecisionPorts,
): Promise<boolean> {
  const fields = {
    act: decision,
    by,
    reason,
    step,
    state,
    ...(token === undefined ? {} : { token: String(token) }),
    ...(attempt === undefined ? {} : { attempt: String(attempt) }),
    ...(evenThough === undefined ? {} : { even_though: evenThough }),
  }
  const subject = recordKey.slice(-16)
  return auditLog.append('audit', operatorNote({ subject, recordKey, atWallMs: clock.wallMs(), fields }))
}
