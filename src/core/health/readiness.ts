/**
 * Whether the sidecar is ready for requests, with brakes: all pods share the nodes, so what makes one pod unready makes
 * all of them unready, and a Service without endpoints is worse than a slow one.
 *
 *   latency gate:  ready → (p95 above `unreadyAbove`, three evaluations in a row) → unready
 *                  unready → (p95 below `readyBelow`, three in a row, and unready for long enough) → ready
 *
 * Owns the judgement over the samples and facts it is given, and no timer: `evaluate` is called every {@link
 * ReadinessGate.evaluateEveryMs}. Too few samples are no evidence: the state stays, and counting in a row starts anew.
 * Claims that began before a lost quorum was back say how long the outage was and nothing of the nodes now: they don't
 * count, nor do those from just before the loss was noticed. A majority that can't vote, a clock for which claims are
 * refused, and the end of the process need no brakes.
 */

import type { Clock, Random } from '../clock.ts'

export type ReadinessReason = 'latency' | 'quorum' | 'clock' | 'shutdown'

export type ReadinessOptions = {
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
  /** Of the claims in the window; undefined where there are too few. */
  readonly p95Ms: number | undefined
}

export type ReadinessGate = {
  readonly evaluateEveryMs: number
  /** A claim ended after so long; `unavailable`: without a majority. */
  observe(durationMs: number, ended?: 'unavailable'): void
  /** Some group has no majority of voting nodes any more, or every group has one again. */
  quorum(present: boolean): void
  /** Claims in the window. */
  samples(): number
  evaluate(): void
  verdict(facts: ReadinessFacts): ReadinessVerdict
}

/** The window is judged, and moves on, in so many steps. */
const SLICES = 12
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
  let backMonoMs = Number.NEGATIVE_INFINITY

  function p95(): number | undefined {
    return window.count() < readinessMinSamples ? undefined : window.quantile(0.95)
  }

  function next(p95Ms: number | undefined): Latency {
    switch (latency.kind) {
      case 'fine': {
        const above = p95Ms !== undefined && p95Ms > unreadyAboveMs ? latency.above + 1 : 0
        if (above < IN_A_ROW) return { kind: 'fine', above }
        const unreadyMs = minUnreadyMs * (1 - JITTER + 2 * JITTER * random.fraction())
        return { kind: 'slow', below: 0, untilMonoMs: clock.monoMs() + unreadyMs }
      }
      case 'slow': {
        const below = p95Ms !== undefined && p95Ms < readyBelowMs ? latency.below + 1 : 0
        return below >= IN_A_ROW && clock.monoMs() >= latency.untilMonoMs
          ? { kind: 'fine', above: 0 }
          : { ...latency, below }
      }
    }
  }

  function verdict(facts: ReadinessFacts): ReadinessVerdict {
    const { phase, voting, required, notAgreed, clockRefusal } = facts
    const failing = new Map<ReadinessReason, string>()
    if (phase === 'leaving') failing.set('shutdown', 'its pod is about to end')
    if (phase === 'draining') failing.set('shutdown', 'it is draining')
    const quorum = lostQuorum(facts)
    if (quorum !== undefined) failing.set('quorum', quorum)
    if (clockRefusal !== undefined) failing.set('clock', clockRefusal)
    const p95Ms = p95()
    if (latency.kind === 'slow') failing.set('latency', slowness(p95Ms, options))
    // A lost group refuses only its own identities; being unready for it would take every pod away from the rest.
    const reportedOnly: ReadonlySet<ReadinessReason> = new Set<ReadinessReason>([
      ...(latencyGate === 'enforce' ? [] : (['latency'] as const)),
      ...(voting >= required && notAgreed !== true ? (['quorum'] as const) : []),
    ])
    const gated = [...failing.keys()].filter((reason) => !reportedOnly.has(reason))
    const reasons = [...(phase === 'starting' ? ['it is starting'] : []), ...failing.values()]
    return {
      ready: phase !== 'starting' && gated.length === 0,
      reasons,
      failing: new Set(failing.keys()),
      p95Ms,
    }
  }

  return {
    evaluateEveryMs: options.readinessWindowMs / SLICES,
    observe: (durationMs, ended) => {
      // With several groups the claims on the others still count.
      if (lost && ended === 'unavailable') return
      if (clock.monoMs() - durationMs >= backMonoMs) window.add(durationMs)
    },
    quorum: (present) => {
      if (lost !== present) return
      lost = !present
      if (present) backMonoMs = clock.monoMs()
      window.clear()
      if (latency.kind === 'fine') latency = { kind: 'fine', above: 0 }
    },
    samples: window.count,
    evaluate: () => {
      latency = next(p95())
      window.moveOn()
    },
    verdict,
  }
}

function lostQuorum(facts: ReadinessFacts): string | undefined {
  const lost = lostVotes(facts)
  return lost === undefined ? undefined : [lost, ...(facts.standstills ?? [])].join('; ')
}

function lostVotes(facts: ReadinessFacts): string | undefined {
  const { voting, nodeCount, required, groupsLost = [], notAgreed } = facts
  const lost = groupsLost.join(', ')
  if (notAgreed === true)
    return `no majority was seen of ${lost} yet, and only all groups together show that every sidecar has the same ones`
  if (voting < required) return `${voting} of ${nodeCount} nodes can vote, ${required} are needed`
  return lost === ''
    ? undefined
    : `no majority can vote in ${lost}: its identities are refused, all others served`
}

function slowness(p95Ms: number | undefined, { latencyGate, ...options }: ReadinessOptions): string {
  const p95 = p95Ms === undefined ? 'not known now' : `${Math.round(p95Ms)} ms`
  const only = latencyGate === 'report' ? ' (reported only)' : ''
  return `claims are slow${only}: their p95 is ${p95}; it was above ${options.unreadyAboveMs} ms and must be below ${options.readyBelowMs} ms`
}

type LatencyWindow = {
  add(durationMs: number): void
  count(): number
  quantile(quantile: number): number
  clear(): void
  /** A new slice begins; the oldest is forgotten. */
  moveOn(): void
}

const BOUND_MIN_MS = 0.5
const BOUND_MAX_MS = 60_000
const BOUND_FACTOR = 1.1

/**
 * Counts per size class instead of samples: memory is bounded. A quantile is the upper bound of its class, at most a
 * tenth too high; `exact` are bounds themselves, so that comparing with them is exact.
 */
function createLatencyWindow(exact: readonly number[]): LatencyWindow {
  const steps = Math.ceil(Math.log(BOUND_MAX_MS / BOUND_MIN_MS) / Math.log(BOUND_FACTOR))
  const regular = Array.from({ length: steps + 1 }, (_, step) => BOUND_MIN_MS * BOUND_FACTOR ** step)
  const bounds = [...new Set([...regular, ...exact])].sort((a, b) => a - b)
  const slices = Array.from({ length: SLICES }, () => new Uint32Array(bounds.length + 1))
  let current = 0
  let count = 0

  return {
    add: (durationMs) => {
      const slice = slices[current] as Uint32Array
      const at = classOf(bounds, durationMs)
      slice[at] = (slice[at] ?? 0) + 1
      count += 1
    },
    count: () => count,
    quantile: (quantile) => {
      const rank = Math.ceil(quantile * count)
      let seen = 0
      for (const [at, bound] of bounds.entries()) {
        for (const slice of slices) seen += slice[at] ?? 0
        if (seen >= rank) return bound
      }
      return Number.POSITIVE_INFINITY
    },
    clear: () => {
      for (const slice of slices) slice.fill(0)
      count = 0
    },
    moveOn: () => {
      current = (current + 1) % SLICES
      const oldest = slices[current] as Uint32Array
      count -= oldest.reduce((total, one) => total + one, 0)
      oldest.fill(0)
    },
  }
}

/** Index of the first bound that is not below `value`; one beyond the last where all are. */
function classOf(bounds: readonly number[], value: number): number {
  let low = 0
  let high = bounds.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((bounds[middle] ?? 0) >= value) high = middle
    else low = middle + 1
  }
  return low
}
