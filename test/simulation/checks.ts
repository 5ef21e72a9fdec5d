/**
 * The checkers: what must be true of a whole history, one function per invariant of the design.
 *
 * Owns the judgement only. Each checker follows from the promise, not from how the core keeps it. Promises that hold
 * without assumption A1 are checked in every history; the rest where memory was lost within its bounds.
 */

import { isMark } from './actors.ts'
import { checkContents, checkEntities, checkFull, checkRaces } from './further-checks.ts'
import {
  countsUntilMs,
  type Execution,
  type Grant,
  type History,
  heldSpans,
  rememberedUntilMs,
  type Submission,
} from './history.ts'
import { checkLooks, checkRefusals } from './look-checks.ts'
import { checkDecisions } from './operator-checks.ts'
import type { World } from './world.ts'

export function check(world: World): void {
  const { history } = world
  checkSettled(world)
  checkNothingForwarded(history)
  checkGuards(history)
  checkLocalExecutions(history)
  checkWrittenBack(world)
  checkLostInTime(world)
  if (world.overwhelmed) return
  checkRemembered(history)
  if (!world.tooManyDrained) checkProbes(history)
  checkMemoryBounded(world)
  checkContents(history)
  checkLooks(history)
  checkRefusals(history)
  checkRaces(world)
  checkFull(world)
  checkEntities(history)
  checkDecisions(history)
}

/** The promises that rest on nodes that remember (assumption A1). */
export function checkRemembered(history: History): void {
  history.violations.push(...history.ifA1)
  checkExclusive(history)
  checkTokenOrder(history)
  checkExecutions(history)
  checkOneTruth(history)
  checkNothingLost(history)
}

/** S1: no two holders believe that they hold a key at the same time. */
function checkExclusive(history: History): void {
  for (const grants of byKey(history.grants, (grant) => grant.lease.key)) {
    const spans = grants
      .filter((grant) => !isTakenBefore(grant, grant.grantedMs))
      .flatMap((grant) => heldSpans(grant).map((span) => ({ ...span, grant })))
      .sort((a, b) => a.fromMs - b.fromMs)
    let last: (typeof spans)[number] | undefined
    for (const span of spans) {
      const { grant, fromMs } = span
      // A claimant that claims again under its own owner id is not a second holder: it may hold again what it holds.
      const itself = last?.grant.process === grant.process && last.grant.lease.owner === grant.lease.owner
      if (last !== undefined && !itself && fromMs < last.untilMs) {
        violated(
          history,
          'S1',
          fromMs,
          `${grant.process} was granted ${grant.lease.key} (token ${grant.lease.token}) while ${last.grant.process} held it (token ${last.grant.lease.token}) until ${last.untilMs.toFixed(2)}`,
        )
      }
      if (last === undefined || span.untilMs > last.untilMs) last = span
    }
  }
}

/** An operator ended it by then, and said that it was live: its claimant may have heard of it only later. */
function isTakenBefore({ takenMs }: Grant, atMs: number): boolean {
  return takenMs !== undefined && takenMs <= atMs
}

/** S4: tokens of a key increase strictly in the real-time order of grants, and none is used twice. */
function checkTokenOrder(history: History): void {
  for (const grants of byKey(history.grants, (grant) => grant.lease.key)) {
    const tokens = grants
      .flatMap((grant) => grant.tokens.map((one) => ({ ...one, grant })))
      .sort((a, b) => a.toldMs - b.toldMs)
    for (const [index, one] of tokens.entries()) {
      for (const earlier of tokens.slice(0, index)) {
        if (earlier.grant === one.grant || one.token > earlier.token) continue
        // A raise takes a while: one that was asked for before the other was told is not after it.
        if (one.askedMs < earlier.toldMs && one.token !== earlier.token) continue
        if (rememberedUntilMs(earlier.grant) < one.toldMs) continue
        if (isTakenBefore(one.grant, one.toldMs)) continue
        violated(history, 'S4', one.toldMs, `token ${one.token} was granted after token ${earlier.token}`)
      }
    }
  }
}

/** S2: at most one execution of a key; each further one has a cause and a higher `attempt`. */
function checkExecutions(history: History): void {
  const guarded = history.executions.filter(({ under }) => under === 'quorum')
  for (const executions of byKey(guarded, (execution) => execution.key)) {
    const sorted = [...executions].sort((a, b) => a.startedMs - b.startedMs)
    for (const [index, execution] of sorted.entries()) {
      for (const earlier of sorted.slice(0, index)) checkPair(history, earlier, execution)
    }
  }
}

/** The same without a quorum, in a process that goes on alone, by its own leases. */
function checkLocalExecutions(history: History): void {
  const local = history.executions.filter(({ under }) => under === 'local')
  for (const executions of byKey(local, ({ process, key }) => `${process} ${key}`)) {
    const sorted = [...executions].sort((a, b) => a.startedMs - b.startedMs)
    for (const [index, execution] of sorted.entries())
      for (const earlier of sorted.slice(0, index)) checkPair(history, earlier, execution)
  }
}

function checkPair(history: History, earlier: Execution, later: Execution): void {
  const first = grantOf(history, earlier)
  const second = grantOf(history, later)
  if (first === undefined || second === undefined) {
    violated(history, 'S2', later.startedMs, `execution ${later.id} under no grant`)
    return
  }
  if (first === second) {
    violated(history, 'S2', later.startedMs, `two executions (${earlier.id}, ${later.id}) under one grant`)
    return
  }
  // The operator ended it, and said that it was live: whatever its holder still does is compared by its token.
  if (isTakenBefore(second, later.startedMs)) return
  if (countsUntilMs(first) < second.grantedMs) {
    history.saw('carried_out_after_retention')
    return
  }
  if (first.releaseSentMs !== undefined && first.releaseSentMs <= second.grantedMs) return
  const inGap = first.gaps.some(
    ({ fromMs, untilMs }) => fromMs < later.startedMs && later.startedMs < untilMs,
  )
  const heldMs = Math.min(first.validUntilMs, first.takenMs ?? Number.POSITIVE_INFINITY)
  if (!inGap && heldMs > second.grantedMs && heldMs > later.startedMs) {
    violated(history, 'S2', later.startedMs, `${later.id} ran while ${earlier.id} still held its lease`)
  }
  // Of two contents a node that forgot gets only the larger claim: the application still learns of the attempt.
  if (earlier.fingerprint !== later.fingerprint && !history.seen.has('joined')) {
    violated(
      history,
      'S10',
      later.startedMs,
      `${later.id} is of another content than ${earlier.id}, which expired`,
    )
  }
  if (later.attempt < 2) {
    violated(
      history,
      'S2',
      later.startedMs,
      `${later.id} was not told that ${earlier.id} may have been executed`,
    )
  }
}

function grantOf(history: History, execution: Execution): Grant | undefined {
  const grants = execution.under === 'local' ? history.localGrants : history.grants
  return grants.find(
    (grant) =>
      grant.lease.key === execution.key &&
      grant.lease.token === execution.token &&
      grant.process === execution.process,
  )
}

/** S6 and S10: a key shows one outcome only, and only to its own request. */
function checkOneTruth(history: History): void {
  for (const shown of byKey(history.shown, (one) => one.key)) {
    let [first] = shown
    const over = new Set<string>()
    for (const one of shown) {
      // A question from before gets an answer of before, also where an operator put another in its place meanwhile.
      const isOver = over.has(one.content) || history.wasDecidedAway(one, one.askedMs, one.atMs)
      if (first !== undefined && isOver && one.askedMs < first.atMs) continue
      if (first !== undefined && one.content !== first.content && !history.isKept(first, one.atMs)) {
        over.add(first.content)
        first = one
      }
      if (first !== undefined && (one.content !== first.content || over.has(one.content))) {
        violated(
          history,
          'S6',
          one.atMs,
          `${one.key} was ${one.by} as ${one.content}, and ${first.by} as ${first.content} before`,
        )
      }
      const source = history.submissions.find((submission) => nameOf(submission) === executorOf(one.content))
      if (source !== undefined && source.fingerprint !== one.fingerprint) {
        violated(history, 'S10', one.atMs, `the outcome of ${one.content} was shown to another content`)
      }
    }
  }
}

function nameOf(submission: Submission): string {
  const { operation, index } = submission
  if (operation.kind === 'session') return `session ${operation.session}`
  return operation.kind === 'reservation' ? `reservation ${index}` : `${index}`
}

/** The operation that executed it; of a session that reserved twice, the session. */
function executorOf(content: string): string | undefined {
  return content.split(' under token ')[0]
}

/** S5: once a majority accepted an outcome, no claim of the key is granted and no request of it executed. */
function checkNothingLost(history: History): void {
  for (const recorded of history.grants) {
    const { recordedMs } = recorded
    if (recordedMs === undefined) continue
    for (const grant of history.grants) {
      if (grant.lease.key !== recorded.lease.key || grant.grantedMs <= recordedMs) continue
      if (rememberedUntilMs(recorded) < grant.grantedMs) continue
      if (isTakenBefore(grant, grant.grantedMs)) continue
      if (history.wasForgotten(grant.lease.key, recorded.offeredMs ?? recordedMs, grant.grantedMs)) continue
      violated(
        history,
        'S5',
        grant.grantedMs,
        `token ${grant.lease.token} was granted although ${recorded.offered} was recorded at ${recordedMs.toFixed(2)}`,
      )
    }
  }
  for (const shown of history.shown) {
    const later = history.grants.find((grant) => grant.lease.key === shown.key && grant.askedMs > shown.atMs)
    if (later !== undefined && history.isKept(shown, later.grantedMs)) {
      violated(
        history,
        'S5',
        later.grantedMs,
        `token ${later.lease.token} was granted after ${shown.content} was shown`,
      )
    }
  }
}

/** S11: a request that is told "unavailable", "mismatch" or a replay has not reached the application. */
function checkNothingForwarded(history: History): void {
  for (const submission of history.submissions) {
    const { outcome } = submission
    if (outcome === undefined || !submission.forwarded) continue
    if (
      outcome.kind === 'unavailable' ||
      outcome.kind === 'mismatch' ||
      outcome.kind === 'duplicate_content' ||
      outcome.kind === 'entity_busy' ||
      outcome.kind === 'too_many_waiters'
    ) {
      violated(
        history,
        'S11',
        submission.answeredMs ?? 0,
        `${submission.index} was executed and told ${outcome.kind}`,
      )
    }
  }
}

/** S11: a client that is told of protection by a quorum had a grant of one; without one the route allows it. */
function checkGuards(history: History): void {
  for (const submission of history.submissions) {
    const { outcome, without, operation, answeredMs = 0, index } = submission
    if (outcome === undefined || operation.kind !== 'request') continue
    const wrong = (detail: string) => violated(history, 'S11', answeredMs, `request ${index} ${detail}`)
    if (without === 'local' && operation.onQuorumLoss !== 'local') wrong('went on alone, against its route')
    const open = without === 'nothing'
    if (
      open &&
      outcome.kind !== 'unprotected' &&
      outcome.kind !== 'unprotected_no_answer' &&
      outcome.kind !== 'never_sent'
    )
      wrong(`was forwarded without protection and told ${outcome.kind}`)
    if (!('protection' in outcome)) continue
    const { protection, execution } = outcome
    const grants = protection === 'quorum' ? history.grants : history.localGrants
    const stood = grants.some(
      ({ lease, process }) =>
        lease.key === submission.key && lease.token === execution.token && process === submission.process,
    )
    if (!stood)
      wrong(`was told that ${protection} protected it, with token ${execution.token}, never granted`)
  }
}

/** W1: a process writes back what it executed alone. W2: and learns what then stands on the quorum. */
function checkWrittenBack(world: World): void {
  const { history } = world
  for (const { key, process, content, atMs, writtenBack } of history.localCompletions) {
    const wrong = (invariant: string, detail: string) =>
      violated(history, invariant, atMs, `${content} of ${key}, which ${process} executed alone, ${detail}`)
    if (writtenBack === undefined && world.alive(process)) wrong('W1', 'was never written back')
    if (writtenBack === 'dropped' && world.alive(process)) wrong('W1', 'was dropped')
    if (world.overwhelmed) continue
    const stands = history.shown.find((shown) => shown.key === key)?.content
    if (writtenBack === 'recorded' && stands !== undefined && stands !== content)
      wrong('W2', `is said to be recorded, and ${stands} is`)
    if (writtenBack === 'conflict' && stands === content) wrong('W2', 'is said to be in conflict with itself')
  }
}

/** L8: a holder is warned before its lease ends, unless it was stopped itself. */
function checkLostInTime({ history, plan }: World): void {
  const wallStepped = plan.faults.some((fault) => fault.kind === 'process_step')
  for (const grant of history.grants) {
    // No holder works under the mark of a content: it is left to expire.
    if (isMark(grant.lease.key)) continue
    const settledMs = Math.min(
      grant.ended?.atMs ?? Number.POSITIVE_INFINITY,
      grant.abandonedMs ?? Number.POSITIVE_INFINITY,
      grant.releaseSentMs ?? Number.POSITIVE_INFINITY,
    )
    if (settledMs <= grant.validUntilMs || wallStepped || history.wasStopped(grant)) continue
    violated(
      history,
      'L8',
      grant.validUntilMs,
      `${grant.process} was not told that token ${grant.lease.token} ended at ${grant.validUntilMs.toFixed(2)}`,
    )
  }
}

/** L2: every operation of a living process is answered. */
function checkSettled(world: World): void {
  for (const submission of world.history.submissions) {
    const { process, handedTo = process } = submission
    if (submission.answeredMs !== undefined || !world.alive(process) || !world.alive(handedTo)) continue
    violated(
      world.history,
      'L2',
      submission.askedMs,
      `${submission.operation.kind} ${submission.index} was never answered`,
    )
  }
}

/** L5: after everything healed, each key is answered from its record or executed anew; no key is stuck. */
function checkProbes(history: History): void {
  const probes = history.submissions.filter((submission) => submission.healed)
  for (const ofKey of byKey(probes, (probe) => probe.key)) {
    const kinds = ofKey.map((probe) => probe.outcome?.kind)
    const last = ofKey.at(-1)
    for (const probe of ofKey) {
      const kind = probe.outcome?.kind
      if (kind === 'created' || kind === 'replayed' || kind === 'mismatch' || kind === undefined) continue
      if (kind === 'undecided' || kind === 'gone') continue
      violated(
        history,
        'L5',
        probe.askedMs,
        `a request in a healthy cluster was told ${kind} (${kinds.join(', ')})`,
      )
    }
    if (
      last !== undefined &&
      !isOfAnotherContent(history, last) &&
      !kinds.some(
        (kind) => kind === 'created' || kind === 'replayed' || kind === 'gone' || kind === 'undecided',
      )
    ) {
      violated(history, 'L5', last.askedMs, `no request of ${last.key} was answered: ${kinds.join(', ')}`)
    }
  }
}

/**
 * The outcome of another content may stand there by right, and then a mismatch is the answer: a process executed that
 * content alone, without a quorum, or a holder offered its outcome and never learnt that a node accepted it.
 */
function isOfAnotherContent(history: History, { key, fingerprint }: Submission): boolean {
  const offered = history.grants.some(
    (grant) =>
      grant.lease.key === key && grant.offered !== undefined && grant.lease.fingerprint !== fingerprint,
  )
  const local = history.localCompletions.some((completion) => {
    const source = history.submissions.find(
      (submission) => nameOf(submission) === executorOf(completion.content),
    )
    return completion.key === key && source !== undefined && source.fingerprint !== fingerprint
  })
  return offered || local
}

/** L5: no key outlives its longest retention, whatever happened to it. */
function checkMemoryBounded(world: World): void {
  // A clock that was set back makes the key live longer there, and on every node that copies it from there.
  if (world.nodes.some((node) => world.isStepped(node.index))) return
  for (const node of world.nodes) {
    const endless = node.longestTtlMs()
    if (endless > MAX_TTL_MS) {
      violated(
        world.history,
        'L5',
        0,
        `${node.name} keeps a key for ${endless} ms, longer than any claim requested`,
      )
    }
  }
}

/** Retention and the longest lease, with a second for clocks. */
const MAX_TTL_MS = 60_000 + 1_500 + 1_000

function byKey<T>(items: readonly T[], keyOf: (item: T) => string): readonly (readonly T[])[] {
  return [...Map.groupBy(items, keyOf).values()]
}

function violated(history: History, invariant: string, atMs: number, detail: string): void {
  history.violated(invariant, atMs, detail)
}
