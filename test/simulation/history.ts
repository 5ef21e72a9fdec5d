/**
 * The facts of one history, for the checkers: noted by the world, judged afterwards.
 *
 * Owns the facts, each with its time on the history's own clock, which no actor can see. It decides nothing.
 */

import type { Outcome } from '../../src/core/outcome.ts'
import type { Lease, ReadResult } from '../../src/core/ports.ts'
import type { Token } from '../../src/core/record/token.ts'
import type { Operation } from './plan.ts'

/** A granted claim. */
export type Grant = {
  /** With its token as last raised, which its nodes hold from then on. */
  lease: Lease
  readonly process: string
  readonly askedMs: number
  readonly grantedMs: number
  /** The end of its validity on the holder's monotonic clock, as last renewed. */
  validUntilMs: number
  /** Every token that it was raised to, the first one included. */
  readonly tokens: { readonly token: Token; readonly askedMs: number; readonly toldMs: number }[]
  /** It was over and was renewed later, since whoever claimed it in between gave it back: in the gap it had no holder. */
  readonly gaps: { readonly fromMs: number; readonly untilMs: number }[]
  releaseSentMs: number | undefined
  /** What was sent is a withdrawal: undone where another call of the session renews it. */
  withdrawn: boolean
  /** A renewal of it was acknowledged. */
  kept: boolean
  /** The holder learnt that a majority released it. */
  releasedMs: number | undefined
  /** The same claimant claimed again: it relies on no earlier grant, because a lost round is given back. */
  askedAgainMs: number | undefined
  /** The holder learnt that a majority has its outcome. */
  recordedMs: number | undefined
  /** The outcome that it offered. */
  offered: string | undefined
  /** When it offered it first: from here on nodes keep it for its retention. */
  offeredMs: number | undefined
  ended: { readonly how: string; readonly atMs: number } | undefined
  /** The holder stopped without a settlement (the application did not answer, or the client vanished). */
  abandonedMs: number | undefined
  /** An operator ended it, although it was live, and said so. */
  takenMs?: number
  /** An operator said that it counts as never executed. */
  forgottenMs?: number
}

/** Until when its holder may believe that it holds. */
export function heldUntilMs(grant: Grant): number {
  return Math.min(
    grant.validUntilMs,
    grant.releaseSentMs ?? Number.POSITIVE_INFINITY,
    grant.askedAgainMs ?? Number.POSITIVE_INFINITY,
    grant.takenMs ?? Number.POSITIVE_INFINITY,
    // Its work is recorded; S5 judges what may happen after that.
    grant.recordedMs ?? Number.POSITIVE_INFINITY,
    // Even unacknowledged: nodes forget the outcome after its retention.
    grant.offeredMs === undefined ? Number.POSITIVE_INFINITY : rememberedUntilMs(grant),
  )
}

/** Its holder learns that its lease goes on. */
export function renewUntil(grant: Grant, untilMs: number, toldMs: number): void {
  if (grant.validUntilMs < toldMs) grant.gaps.push({ fromMs: grant.validUntilMs, untilMs: toldMs })
  grant.validUntilMs = untilMs
}

/** When its holder may believe that it holds: more than one span where the lease was over and was renewed later. */
export function heldSpans(grant: Grant): readonly { readonly fromMs: number; readonly untilMs: number }[] {
  const endMs = heldUntilMs(grant)
  const starts = [grant.grantedMs, ...grant.gaps.map(({ untilMs }) => untilMs)]
  const ends = [...grant.gaps.map(({ fromMs }) => Math.min(fromMs, endMs)), endMs]
  return starts
    .map((fromMs, index) => ({ fromMs, untilMs: ends[index]! }))
    .filter(({ fromMs, untilMs }, index) => index === 0 || fromMs < untilMs)
}

/** Whether its holder may believe throughout that it holds. */
export function isHeldThrough(grant: Grant, fromMs: number, untilMs: number): boolean {
  const over = grant.gaps.some((gap) => gap.fromMs < untilMs && gap.untilMs > fromMs)
  return heldUntilMs(grant) > untilMs && !over
}

/** Until when, at the least, nodes remember what this grant left there. */
export function rememberedUntilMs({ lease, validUntilMs, offeredMs = validUntilMs }: Grant): number {
  return Math.min(offeredMs, validUntilMs) + lease.retentionMs * SURELY_KEPT
}

/** Until when it counts as an attempt: nodes remember it, and no operator had it forgotten. */
export function countsUntilMs(grant: Grant): number {
  return Math.min(rememberedUntilMs(grant), grant.forgottenMs ?? Number.POSITIVE_INFINITY)
}

/** Clocks differ: the retention of an outcome may end this much sooner than by the history's own clock. */
const SURELY_KEPT = 0.99

/** One execution by the application. */
export type Execution = {
  readonly id: string
  readonly operation: number
  readonly key: string
  readonly fingerprint: string
  readonly token: number
  readonly attempt: number
  readonly process: string
  readonly startedMs: number
  /** What protected it: a lease of the quorum, one of the process alone, or none. */
  readonly under: Guard
}

export type Guard = 'quorum' | 'local' | 'nothing'

/** An execution under the local record of a process while the quorum was away, and the result of its write-back. */
export type LocalCompletion = {
  readonly key: string
  readonly process: string
  readonly content: string
  readonly atMs: number
  writtenBack: 'recorded' | 'conflict' | 'dropped' | undefined
}

export type Submission = {
  readonly index: number
  readonly operation: Operation
  readonly key: string
  readonly fingerprint: string
  readonly process: string
  readonly askedMs: number
  readonly healed: boolean
  /** Sent to the application, whether it arrived or not. */
  forwarded: boolean
  /** Undefined where the quorum decided. */
  without: 'local' | 'nothing' | undefined
  answeredMs: number | undefined
  outcome: Outcome | undefined
  /** Which other process serves a later call of it. */
  handedTo?: string
}

/** An outcome that a caller got as the recorded one of a key. */
export type Shown = {
  readonly key: string
  readonly fingerprint: string
  readonly content: string
  readonly askedMs: number
  readonly atMs: number
  readonly by: 'created' | 'replayed' | 'fenced' | 'read' | 'decided'
}

/** The result of a read. */
export type Looked = {
  readonly key: string
  readonly process: string
  readonly askedMs: number
  readonly answeredMs: number
  readonly result: ReadResult
}

/** An outcome whose holder was told that it will never stand. */
export type Refused = {
  readonly key: string
  readonly content: string
  readonly process: string
  readonly askedMs: number
  readonly atMs: number
}

/** What an operator did, and was told. */
export type Deed = {
  readonly key: string
  readonly process: string
  readonly decides: Extract<Operation, { kind: 'decision' }>['decides']
  readonly dry: boolean
  readonly askedMs: number
  /** The token that it saw, where it decided under it. */
  readonly expects: number | undefined
  /** Whether it decided about an outcome. */
  sawOutcome: boolean
  /** It sent the record of the key a command that may change it. */
  wrote: boolean
  toldMs: number | undefined
  /** What it was told: the kind of the result. */
  told: string | undefined
  /** Of an `ask`: nothing was decided. */
  nothingDecided: boolean
  /** The outcome that it had forgotten or replaced, and from when on. */
  forgot: string | undefined
}

/** Said by an operator: from here on this outcome is no promise any more. */
export type Forgetting = {
  readonly key: string
  readonly content: string
  readonly fromMs: number
  /** Another outcome stands in its place: still nothing may be executed. */
  readonly replaced: boolean
}

/** Claims of a key up to a token, of one owner or of all, which an operator ended or had forgotten. */
export type Overruled = {
  readonly key: string
  readonly upToToken: number
  readonly owner?: string
  readonly fromMs: number
  readonly how: 'takenMs' | 'forgottenMs'
}

export type Violation = { readonly invariant: string; readonly atMs: number; readonly detail: string }

export class History {
  readonly grants: Grant[] = []
  readonly executions: Execution[] = []
  /** Claims that a process granted itself while the quorum was away. */
  readonly localGrants: Grant[] = []
  readonly localCompletions: LocalCompletion[] = []
  readonly submissions: Submission[] = []
  /** Keys of which a node's answer to a claim missed its deadline: what that node granted, its claimant does not know. */
  readonly unheardClaims = new Set<string>()
  readonly shown: Shown[] = []
  readonly looked: Looked[] = []
  readonly refused: Refused[] = []
  readonly violations: Violation[] = []
  /** Violations found during the run, of promises that rest on assumption A1. */
  readonly ifA1: Violation[] = []
  readonly orphansTold = new Set<string>()
  readonly deeds: Deed[] = []
  /** Acknowledged renewals, where operators decide about claims. */
  readonly renewed: (Pick<Lease, 'key' | 'owner' | 'token'> & { readonly askedMs: number })[] = []
  readonly forgettings: Forgetting[] = []
  readonly overruled: Overruled[] = []
  readonly seen = new Map<Sight, number>()
  /** When processes did not run, by name. */
  readonly stops = new Map<string, readonly { readonly fromMs: number; readonly untilMs: number }[]>()
  #trace: string[] | undefined
  #digest = 0

  /** Counts a sight; a campaign that lacks one proves nothing. */
  saw(sight: Sight): void {
    this.seen.set(sight, (this.seen.get(sight) ?? 0) + 1)
  }

  violated(invariant: string, atMs: number, detail: string): void {
    this.violations.push({ invariant, atMs, detail })
  }

  /** Counts only where the lost memory is within what the promises allow. */
  beyondA1(invariant: string, atMs: number, detail: string): void {
    this.ifA1.push({ invariant, atMs, detail })
  }

  keepTrace(): string[] {
    this.#trace = []
    return this.#trace
  }

  /** One step, for the digest that proves an exact replay; its text is made only for a trace. */
  step(atMs: number, code: number, text: () => string): void {
    this.#digest = Math.imul(this.#digest ^ (atMs * 1_000) ^ Math.imul(code, 0x9e3779b1), 0x01000193)
    this.#trace?.push(`${atMs.toFixed(2).padStart(10)} ms  ${text()}`)
  }

  get digest(): string {
    return (this.#digest >>> 0).toString(16).padStart(8, '0')
  }

  /** Whether the holder was stopped or died between its grant and the end of its lease. */
  wasStopped(grant: Grant): boolean {
    return (this.stops.get(grant.process) ?? []).some(
      ({ fromMs, untilMs }) => fromMs <= grant.validUntilMs && untilMs >= grant.grantedMs,
    )
  }

  grantOf(lease: Pick<Lease, 'key' | 'token' | 'owner'>): Grant | undefined {
    return this.grants.find(
      (grant) =>
        grant.lease.token === lease.token &&
        grant.lease.owner === lease.owner &&
        grant.lease.key === lease.key,
    )
  }

  submissionOf(index: number): Submission | undefined {
    return this.submissions.find((submission) => submission.index === index)
  }

  /** A claim that is granted is known from now on, also to operators who decided about it before its holder heard of it. */
  granted(grant: Grant): void {
    this.grants.push(grant)
    for (const overruled of this.overruled) apply(overruled, grant)
  }

  overrule(overruled: Overruled): void {
    this.overruled.push(overruled)
    for (const grant of this.grants) apply(overruled, grant)
  }

  /** Whether an operator had the outcome of this key forgotten in between, and did not just put another in its place. */
  wasForgotten(key: string, fromMs: number, untilMs: number): boolean {
    return this.forgettings.some(
      (one) => one.key === key && !one.replaced && one.fromMs >= fromMs && one.fromMs <= untilMs,
    )
  }

  /** Whether an operator had this outcome forgotten or replaced in between. */
  wasDecidedAway({ key, content }: Pick<Shown, 'key' | 'content'>, fromMs: number, untilMs: number): boolean {
    return this.forgettings.some(
      (one) => one.key === key && one.content === content && one.fromMs >= fromMs && one.fromMs <= untilMs,
    )
  }

  /** Whether an outcome that was shown must still be known. */
  isKept({ key, content }: Pick<Shown, 'key' | 'content'>, atMs: number): boolean {
    const said = this.forgettings.some(
      (one) => one.key === key && one.content === content && one.fromMs <= atMs,
    )
    if (said) return false
    const source = this.grants.find((grant) => grant.lease.key === key && grant.offered === content)
    return source === undefined || rememberedUntilMs(source) >= atMs
  }

  /** The same, even before the nodes know the token to which it is raised. */
  grantRaisedTo({ key, owner, token }: Pick<Lease, 'key' | 'token' | 'owner'>): Grant | undefined {
    return this.grants.findLast(
      ({ lease }) => lease.owner === owner && lease.key === key && lease.token <= token,
    )
  }
}

function apply({ key, upToToken, owner, fromMs, how }: Overruled, grant: Grant): void {
  const { lease } = grant
  if (lease.key !== key || lease.token > upToToken || (owner !== undefined && lease.owner !== owner)) return
  grant[how] ??= fromMs
}

/** What a campaign must have seen at least once. */
export const SIGHTS = [
  'granted',
  'created',
  'replayed',
  'mismatch',
  'in_progress',
  'takeover',
  'outcome_adopted',
  'conflict_repaired',
  'fenced_completion',
  'winner_shown',
  'quorum_lost',
  'unstored',
  'indeterminate',
  'undecided',
  'claim_expired',
  'stale_token_proposed',
  'skewed_token_proposed',
  'renewed',
  'renewal_lost',
  'lease_expired',
  'stale_write_refused',
  'released',
  'quarantined_answer',
  'node_wiped',
  'node_forgot_a_part',
  'node_restarted_whole',
  'node_flushed',
  'node_leapt',
  'leap_noticed',
  'joined_after_leap',
  'rejoin_crashed',
  'joined',
  'drained',
  'drained_set_back',
  'drained_empty',
  'drained_flushed',
  'too_many_drained',
  'rewound_while_it_waits',
  'evicted_while_it_waits',
  'told_once_more',
  'continued',
  'told_by_all',
  'node_polled_lightly',
  'rejoin_copied_outcome',
  'rejoin_copied_sighting',
  'rejoin_superseded',
  'loss_refused',
  'overwhelmed',
  'loss_declared',
  'process_paused_beyond_lease',
  'process_crashed_holding',
  'message_executed_twice',
  'answered_from_memory',
  'outcome_from_memory',
  'unprotected',
  'local_created',
  'local_replayed',
  'written_back',
  'written_back_conflict',
  'swept',
  'orphan_told',
  'orphan_concluded',
  'orphan_forgotten',
  'raised',
  'reserved_together',
  'completed_together',
  'entity_busy',
  'duplicate_content',
  'adoption_refused',
  'cluster_founded',
  'cluster_refused',
  'answer_too_old',
  'full_node_answered',
  'full_node_refused',
  'founding_objected',
  'carried_out_after_retention',
  'decided_end',
  'decided_complete',
  'decided_forget',
  'decided_ask',
  'decided_requeue',
  'decided_discard',
  'decided_discard_completed',
  'decision_would',
  'decision_busy',
  'decision_refused',
  'decision_must_say',
  'decision_moved_on',
  'decision_unavailable',
  'outcome_forgotten',
  'outcome_replaced',
  'fenced_by_operator',
] as const

export type Sight = (typeof SIGHTS)[number]
