/**
 * Whether the sidecar is ready for requests, with brakes: all pods share the nodes, so what makes one pod unready makes
 * all of them unready, and a Service without endpoints is worse than a slow one.
 *
 *   latency gate:  ready → (p95 of the window above `unreadyAbove`, three evaluations in a row) → unready
 *                  unready → (the newest claims below `readyBelow`, three in a row, and unready for long enough) → ready
 *
 * The window says whether claims are slow, and the claims since the last evaluation whether they still are: where these are fast, nothing
 * becomes unready by what was slow before them, and what is unready need not wait for the window to forget.
 *
 * Owns the judgement over the samples and facts it is given, and no timer: `evaluate` is called every {@link
 * ReadinessGate.evaluateEveryMs}. Too few samples are no evidence, and the state stays.
 * Claims that began before a lost quorum was back say how long the outage was and nothing of the nodes now: they don't
 * count, nor do those from just before the loss was noticed. A majority that can't vote, takes no writes or does not answer claims in time, a
 * clock for which claims are refused, and the end of the process need no brakes. Where requests go on without a quorum, its loss is only reported, as
 * an unready pod gets none of them; but a pod that never saw a majority stays unready, so that a rollout with the wrong
 * nodes stops.
 *
 * While it is *calm* (few claims, each of them fast, and nothing happened to a node) the window stands still: its claims
 * stay the evidence, so that one claim in a while confirms it. The first slow claim finds them there, and the
 * second one shows in the p95, as where the window had moved on and been filled again.
 */

import type { Clock, Random } from '../clock.ts'
import { createLatencyWindow, WINDOW_SLICES } from './latency-window.ts'

export type ReadinessReason = 'latency' | 'quorum' | 'clock' | 'shutdown'

export type ReadinessOptions = {
  /** `report`: a lost quorum is reported, and the sidecar stays ready. */
  readonly quorumGate: 'enforce' | 'report'
  /** `report`: a slow p95 is reported as a reason and as a metric, and the sidecar stays ready. */
  readonly latencyGate: 'enforce' | 'report'
  readonly unreadyAboveMs: number
  readonly readyBelowMs: number
  readonly readinessWindowMs: number
  readonly readinessMinSamples: number
  readonly minUnreadyMs: number
}

/** What readiness can't find out by itself. */
export type ReadinessFacts = {
  readonly phase: 'starting' | 'serving' | 'leaving' | 'draining'
  /** Of several quorum groups: in the one with the most votes. */
  readonly voting: number
  /** Of those that vote, the ones that take writes; in the group with the most. */
  readonly writable: number
  /** Claims end without a majority of answers in time, in every group that has a majority: the quorum breaker is open. */
  readonly unanswered?: true
  /** Of one group. */
  readonly nodeCount: number
  readonly required: number
  /** Groups without a majority, where there are several. */
  readonly groupsLost?: readonly string[]
  /** Some group has not been seen with a majority yet: until then no claim is sent to any. */
  readonly notAgreed?: true
  /** Where votes do not come back by themselves: why, and what to do. */
  readonly standstills?: readonly string[]
  /** Claims are refused because of the clocks: the sentence that says why. */
  readonly clockRefusal?: string
}

export type ReadinessVerdict = {
  readonly ready: boolean
  /** Sentences for the body of `/readyz`. */
  readonly reasons: readonly string[]
  /** The same for the metric; with `latency` also where it is only reported. */
  readonly failing: ReadonlySet<ReadinessReason>
  /** Each of them with its sentence. */
  readonly sentences: ReadonlyMap<ReadinessReason, string>
  /** Of the claims in the window; undefined where there are too few. */
  readonly p95Ms: number | undefined
}

export type ReadinessGate = {
  readonly evaluateEveryMs: number
  /** A claim ended after so long; `unavailable`: without a majority. */
  observe(durationMs: number, ended?: 'unavailable'): void
  /** Some group has no majority of voting nodes that answer any more, or every group has one again. */
  quorum(present: boolean): void
  /** Claims in the window. */
  samples(): number
  /** Something happened to a node or a claim that no duration shows: it is not calm for a window. */
  disturbed(): void
  /** One claim of our own in a while confirms what is known; else the window wants some more, or has enough. */
  wants(): 'one in a while' | 'more' | 'none'
  evaluate(): void
  verdict(facts: ReadinessFacts): ReadinessVerdict
}

/** A quarter above the least number: each slice of the window that ends takes its claims away. */
const ENOUGH = 1.25

/** One slow or fast evaluation is chance, two may be, three in a row are a trend. */
const IN_A_ROW = 3
const JITTER = 0.2

type Latency =
  | { readonly kind: 'fine'; readonly above: number }
  | { readonly kind: 'slow'; readonly below: number; readonly untilMonoMs: number }

export function createReadinessGate(
  options: ReadinessOptions,
  { clock, random }: { readonly clock: Pick<Clock, 'monoMs'>; readonly random: Pick<Random, 'fraction'> },
): ReadinessGate {
  const { unreadyAboveMs, readyBelowMs, readinessMinSamples, minUnreadyMs, latencyGate } = options
  const window = createLatencyWindow([unreadyAboveMs, readyBelowMs])
  let latency: Latency = { kind: 'fine', above: 0 }
  let lost = false
  /** A majority of every group, at some time. */
  let seen = false
  let backMonoMs = Number.NEGATIVE_INFINITY
  let disturbedMonoMs = Number.NEGATIVE_INFINITY
  const enough = readinessMinSamples * ENOUGH

  function isCalm(): boolean {
    const count = window.count()
    // With more claims than that the window is of requests, and moves on.
    if (lost || count < readinessMinSamples || count > enough + 1) return false
    if (clock.monoMs() - disturbedMonoMs < options.readinessWindowMs) return false
    return latency.kind === 'fine' && window.quantile(1) <= readyBelowMs
  }

  /** A full window of slow claims says nothing of now. */
  const evidence = () => (latency.kind === 'slow' ? WINDOW_SLICES * window.newest.count() : window.count())

  function p95(): number | undefined {
    return window.count() < readinessMinSamples ? undefined : window.quantile(0.95)
  }

  function next(p95Ms: number | undefined): Latency {
    const nowMs = window.newest.count() === 0 ? undefined : window.newest.quantile(0.95)
    switch (latency.kind) {
      case 'fine': {
        const isSlow = p95Ms !== undefined && p95Ms > unreadyAboveMs
        const above = isSlow && (nowMs === undefined || nowMs >= readyBelowMs) ? latency.above + 1 : 0
        if (above < IN_A_ROW) return { kind: 'fine', above }
        const unreadyMs = minUnreadyMs * (1 - JITTER + 2 * JITTER * random.fraction())
        return { kind: 'slow', below: 0, untilMonoMs: clock.monoMs() + unreadyMs }
      }
      case 'slow': {
        if (nowMs === undefined) return latency
        const below = nowMs < readyBelowMs ? latency.below + 1 : 0
        return below >= IN_A_ROW && clock.monoMs() >= latency.untilMonoMs
          ? { kind: 'fine', above: 0 }
          : { ...latency, below }
      }
    }
  }

  function verdict(facts: ReadinessFacts): ReadinessVerdict {
    const { phase, writable, required, notAgreed, unanswered, clockRefusal } = facts
    const present = writable >= required && notAgreed !== true && unanswered !== true
    seen ||= present
    const goesOn = options.quorumGate === 'report' && seen && notAgreed !== true
    const failing = new Map<ReadinessReason, string>()
    if (phase === 'leaving') failing.set('shutdown', 'its pod is about to end')
    if (phase === 'draining') failing.set('shutdown', 'it is draining')
    const quorum = lostQuorum(facts)
    const only = goesOn && !present ? ' (reported only)' : ''
    if (quorum !== undefined) failing.set('quorum', `${quorum}${only}`)
    if (clockRefusal !== undefined) failing.set('clock', `${clockRefusal}${only}`)
    const p95Ms = p95()
    if (latency.kind === 'slow') failing.set('latency', slowness(p95Ms, options))
    // A lost group refuses only its own identities; being unready for it would take every pod away from the rest.
    const reportedOnly: ReadonlySet<ReadinessReason> = new Set<ReadinessReason>([
      ...(latencyGate === 'enforce' ? [] : (['latency'] as const)),
      ...(present || goesOn ? (['quorum'] as const) : []),
      // With the quorum lost: while nodes vote, no route goes on without them.
      ...(goesOn && !present ? (['clock'] as const) : []),
    ])
    const gated = [...failing.keys()].filter((reason) => !reportedOnly.has(reason))
    const reasons = [...(phase === 'starting' ? ['it is starting'] : []), ...failing.values()]
    return {
      ready: phase !== 'starting' && gated.length === 0,
      reasons,
      failing: new Set(failing.keys()),
      sentences: failing,
      p95Ms,
    }
  }

  return {
    evaluateEveryMs: options.readinessWindowMs / WINDOW_SLICES,
    observe: (durationMs, ended) => {
      // With several groups the claims on the others still count.
      if (lost && ended === 'unavailable') return
      if (ended === 'unavailable') disturbedMonoMs = clock.monoMs()
      if (clock.monoMs() - durationMs >= backMonoMs) window.add(durationMs)
    },
    disturbed: () => {
      disturbedMonoMs = clock.monoMs()
    },
    quorum: (present) => {
      if (lost !== present) return
      lost = !present
      seen ||= present
      if (present) backMonoMs = clock.monoMs()
      window.clear()
      if (latency.kind === 'fine') latency = { kind: 'fine', above: 0 }
    },
    samples: window.count,
    wants: () => (isCalm() ? 'one in a while' : evidence() > enough ? 'none' : 'more'),
    evaluate: () => {
      latency = next(p95())
      if (!isCalm()) window.moveOn()
    },
    verdict,
  }
}

function lostQuorum(facts: ReadinessFacts): string | undefined {
  const lost = lostVotes(facts)
  return lost === undefined ? undefined : [lost, ...(facts.standstills ?? [])].join('; ')
}

function lostVotes(facts: ReadinessFacts): string | undefined {
  const { voting, writable, nodeCount, required, groupsLost = [], notAgreed, unanswered } = facts
  const lost = groupsLost.join(', ')
  if (notAgreed === true)
    return `no majority was seen of ${lost} yet, and only all groups together show that every sidecar has the same ones`
  if (voting < required) return `${voting} of ${nodeCount} nodes can vote, ${required} are needed`
  if (writable < required)
    return `${writable} of ${nodeCount} nodes take writes, ${required} are needed: each of the others that vote says why it refuses them`
  if (unanswered === true)
    return `no majority answers claims in time, though ${voting} of ${nodeCount} nodes can vote: the network or the nodes are too slow for FENCEPOST_NODE_DEADLINE`
  return lost === ''
    ? undefined
    : `no majority can vote and take writes in ${lost}: its identities are refused, all others served`
}

function slowness(p95Ms: number | undefined, { latencyGate, ...options }: ReadinessOptions): string {
  const p95 = p95Ms === undefined ? 'not known now' : `${Math.round(p95Ms)} ms`
  const only = latencyGate === 'report' ? ' (reported only)' : ''
  return `claims are slow${only}: their p95 is ${p95}; it was above ${options.unreadyAboveMs} ms and must be below ${options.readyBelowMs} ms`
}
