/**
 * Broken builds of the core, each with one rule of the protocol taken out, and the checker that must notice.
 *
 * Owns the list and how a build is broken: the source of one module is changed while it is loaded, in a process of its
 * own, so that production code carries no switches. A rule that is not found in the source any more is an error, never a
 * mutant that lives.
 */

import { registerHooks } from 'node:module'

export type Mutant = {
  readonly name: string
  /** The rule that is taken out, in words of the protocol. */
  readonly rule: string
  /** Of the repository. */
  readonly file: string
  readonly from: string
  readonly to: string
  /** The invariants of which at least one must be found broken. */
  readonly killedBy: readonly string[]
  /** The situation in which it shows, where it is too rare among all plans. */
  readonly only?: string
}

const RULES = 'src/core/record/record-rules.ts'
const CLAIM = 'src/core/claims/claim.ts'
const SHARED = 'src/core/claims/shared-leases.ts'
const WRITE_BACK = 'src/core/claims/write-back.ts'
const NODE_CLOCKS = 'src/core/nodes/node-clocks.ts'
const SWEEPER = 'src/coordination/sweeper.ts'
const DEDUPLICATE = 'src/core/deduplicate.ts'
const CONTINUITY = 'src/core/nodes/continuity.ts'

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'complete-without-fence',
    rule: 'a completion below the fence is refused (no unconditional SET)',
    file: RULES,
    from: 'if (takes) return recorded(',
    to: 'if (!accepted) return recorded(',
    killedBy: ['S8', 'S4', 'S6'],
  },
  {
    name: 'renew-past-larger-fence',
    rule: 'a renewal is refused where a larger fence is known',
    file: RULES,
    from: "if (token < record.fence) return lost(record.fence)\n  switch (record.state) {\n    case 'completed'",
    to: "if (token < record.fence && record.state !== 'completed') return renewed(nodeMs)\n  switch (record.state) {\n    case 'completed'",
    killedBy: ['S8', 'S4'],
  },
  {
    name: 'release-without-owner',
    rule: 'only the owner releases (no DEL without a check)',
    file: RULES,
    from: "if (record.state !== 'claimed' || record.fence !== token || record.owner !== owner) {",
    to: "if (record.state !== 'claimed') {",
    killedBy: ['S8', 'S4'],
  },
  {
    name: 'release-forgets-fence',
    rule: 'a release keeps the fence, so that a delayed claim of the same token bounces',
    file: RULES,
    from: "write: { record: { state: 'released', fence: token }, ttl: { ms: keyTtlMs } },",
    to: "write: { record: { state: 'released', fence: 0 }, ttl: { ms: keyTtlMs } },",
    killedBy: ['S4'],
  },
  {
    name: 'release-forgets-attempt',
    rule: 'releasing a takeover gives the lapsed claim of the earlier attempt back',
    file: RULES,
    from: 'if (record.attempt === 1) return released\n',
    to: 'return released\n',
    killedBy: ['S2'],
  },
  {
    name: 'claim-below-fence',
    rule: 'a token is granted only above every token that the node has seen (no naive token)',
    file: RULES,
    from: "    case 'released':\n      return token > record.fence ? granted(1) : stale(record.fence)",
    to: "    case 'released':\n      return granted(1)",
    killedBy: ['S4'],
  },
  {
    name: 'claim-over-live-lease',
    rule: 'a live lease of another owner refuses',
    file: RULES,
    from: 'if (remainingMs > 0) {\n        const { fence, fingerprint, attempt } = record',
    to: 'if (remainingMs > command.leaseMs / 2) {\n        const { fence, fingerprint, attempt } = record',
    killedBy: ['S1', 'S2'],
  },
  {
    name: 'attempt-not-counted',
    rule: 'a takeover is told to the application as a further attempt',
    file: RULES,
    from: 'granted(Math.min(ATTEMPT_MAX, record.attempt + 1))',
    to: 'granted(record.attempt)',
    killedBy: ['S2'],
  },
  {
    name: 'token-of-any-future',
    rule: 'one wild clock cannot poison a key',
    file: RULES,
    from: 'return isTooFarAhead(token, nodeMs, maxTokenAheadMs) ? { answer: released.answer } : released',
    to: 'return released',
    killedBy: ['L5', 'D3'],
  },
  {
    name: 'no-adoption-of-a-single-sighting',
    rule: 'as soon as any answer shows a completed record, its outcome is adopted',
    file: CLAIM,
    from: 'if (round.majorityReached && bestCompleted(round.answers) === undefined)\n    return settleGrant',
    to: 'if (round.majorityReached) return settleGrant',
    killedBy: ['adoption'],
  },
  {
    name: 'minority-outcome-shown',
    rule: 'until a majority holds an outcome it is not an answer',
    file: 'src/core/quorum/refused-claim.ts',
    from: "if (leading !== undefined && leading.holders >= needed) return { kind: 'completed', chosen: leading.best }",
    to: "if (leading !== undefined) return { kind: 'completed', chosen: leading.best }",
    killedBy: ['S6', 'S5'],
  },
  {
    name: 'write-back-without-promises',
    rule: 'only who holds promises of a majority may write back',
    file: 'src/core/quorum/refused-claim.ts',
    from: 'if (leading !== undefined && promises >= needed && !disputed) {',
    to: 'if (leading !== undefined && !disputed) {',
    killedBy: ['S6', 'S5', 'L5'],
  },
  {
    name: 'smallest-ballot-adopted',
    rule: 'of two outcomes the one with the larger token is adopted',
    file: 'src/core/quorum/tally.ts',
    from: 'acceptedToken))].sort((a, b) => b - a)',
    to: 'acceptedToken))].sort((a, b) => a - b)',
    killedBy: ['S6', 'S5'],
  },
  {
    name: 'adoption-without-its-promise',
    rule: 'an outcome is adopted in place of what was promised for it, and of nothing else',
    file: CLAIM,
    from: "const command = { kind: 'complete', key, token, acceptedToken: token, owner } as const",
    to: "const command = { kind: 'complete', key, token, owner } as const",
    killedBy: ['S2', 'S6'],
    only: 'retention',
  },
  {
    name: 'no-validity-check',
    rule: 'a claim that took longer to get than it lasts is not handed out',
    file: CLAIM,
    from: 'if (remainingMs(lease, now(ports.clock)) > 0) {',
    to: 'if (lease.attempt > 0) {',
    killedBy: ['S13', 'S1'],
  },
  {
    name: 'validity-by-wall-clock',
    rule: 'validity is measured on the monotonic clock too',
    file: 'src/core/claims/lease.ts',
    from: 'return Math.min(lease.validUntilMonoMs - at.monoMs, lease.validUntilWallMs - at.wallMs)',
    to: 'return lease.validUntilWallMs - at.wallMs',
    killedBy: ['L8', 'S13', 'L5'],
  },
  {
    name: 'validity-without-drift',
    rule: 'a lease is valid for less than the node keeps it, by what clocks may drift apart',
    file: 'src/core/claims/lease.ts',
    from: 'const validMs = leaseMs - driftMs(leaseMs)',
    to: 'const validMs = leaseMs + 4 * driftMs(leaseMs)',
    killedBy: ['S1'],
  },
  {
    name: 'keeper-warns-too-late',
    rule: 'a holder hears that its lease ends before it has ended',
    file: 'src/core/claims/lease-renewer.ts',
    from: 'Math.max(0, this.#keepableMs())',
    to: 'Math.max(0, this.#keepableMs()) + this.lease.leaseMs',
    killedBy: ['L8'],
  },
  {
    name: 'quorum-of-two',
    rule: 'a majority of distinct nodes carries a round',
    file: 'node_modules/redlock/dist/esm/index.js',
    from: 'quorumSize: Math.floor(clientResults.length / 2) + 1,',
    to: 'quorumSize: Math.min(2, Math.floor(clientResults.length / 2) + 1),',
    killedBy: ['S13', 'S12', 'S1'],
  },
  {
    name: 'one-node-under-two-addresses',
    rule: 'distinct nodes are counted, never replies',
    file: 'test/simulation/sidecar.ts',
    from: 'const links = nodes.map(\n    (node) =>',
    to: 'const links = [nodes[0]!, nodes[0]!, ...nodes.slice(2)].map(\n    (node) =>',
    killedBy: ['S13', 'S12'],
  },
  {
    name: 'single-node-fallback',
    rule: 'without a quorum nothing is granted (no fallback to what can be reached)',
    file: CLAIM,
    from: '  const refusal = await explain(round)\n',
    to: "  const refusal = await explain(round)\n  if (refusal.kind === 'unavailable' && refusal.answered > 0 && round.answers.some((answer) => answer?.kind === 'granted')) return settleGrant(proposal, round, ports)\n",
    killedBy: ['S13'],
  },
  {
    name: 'same-owner-below-an-earlier-token',
    rule: 'a claimant that has to propose a smaller token than before is somebody else',
    file: CLAIM,
    from: '    owner = random.hex(16)\n  }',
    to: '  }',
    killedBy: ['S1', 'S2'],
  },
  {
    name: 'no-release-after-a-lost-round',
    rule: 'a failed round releases on every node that may have granted',
    file: CLAIM,
    from: '  await releaseGranted(proposal, round, ports)\n  return stepAfter(refusal, ports)',
    to: '  return stepAfter(refusal, ports)',
    killedBy: ['L3', 'L5'],
  },
  {
    name: 'token-is-the-clock',
    rule: 'a token lies above everything that was seen, whatever the clock says',
    file: 'src/core/record/token.ts',
    from: 'this.#last = Math.max(near, this.#last + 1, this.#above(above))',
    to: 'this.#last = tokenAt(this.#wallMs() + 0 * above)',
    killedBy: ['L5'],
  },
  {
    name: 'quarantined-answers-count',
    rule: 'the answers of a node that forgot do not count',
    file: 'test/simulation/node.ts',
    from: 'return voting\n',
    to: 'return answer.kind\n',
    killedBy: ['S13', 'S1'],
  },
  {
    name: 'no-quarantine',
    rule: 'a node that forgot waits until every lease that it may have granted is over',
    file: 'src/core/nodes/enrolment-rules.ts',
    from: 'if (elapsedMs < quarantineMs) return',
    to: 'if (elapsedMs < 0) return',
    killedBy: ['S1', 'S2'],
  },
  {
    name: 'no-copying',
    rule: 'a node that forgot is told what a majority remembers before it votes',
    file: 'src/core/nodes/enrolment-rules.ts',
    from: "if (heardEnough) return { kind: 'finish' }",
    to: "if (elapsedMs >= 0) return { kind: 'finish' }",
    killedBy: ['S5', 'S6', 'S2', 'S4'],
  },
  {
    name: 'copying-from-one-node',
    rule: 'what is copied is what a majority of voting nodes remembers',
    file: 'src/core/nodes/enrolment-rules.ts',
    from: 'done.length >= required\n',
    to: 'done.length >= 0\n',
    killedBy: ['S5', 'S6', 'S2', 'S4'],
  },
  {
    name: 'copies-count-as-votes',
    rule: 'an outcome that a node was told of is no acceptance of its own',
    file: 'src/core/record/record-merge.ts',
    from: 'return chosen || record.fence === record.acceptedToken ? accepted : { ...accepted, copied: true }',
    to: 'return accepted',
    killedBy: ['S6', 'S5', 'S12'],
  },
  {
    name: 'nonce-not-checked',
    rule: 'a node that forgot again while it was enrolled is not enrolled by what went before',
    file: 'test/simulation/enroller.ts',
    from: 'return quarantine?.nonce === nonce && quarantine.runId === runIdOf(this.#node)',
    to: 'return nonce !== undefined || quarantine !== undefined',
    killedBy: ['S1', 'S2', 'S5', 'S6', 'S4'],
  },
  {
    name: 'leapt-node-votes-on',
    rule: 'the votes of a node whose clock was stepped do not count until the longest lease is over',
    file: NODE_CLOCKS,
    from: 'return suspended || refused ?',
    to: 'return (suspended && refused) || refused ?',
    killedBy: ['S1', 'S2', 'S5', 'S6'],
  },
  {
    name: 'leapt-node-not-enrolled-again',
    rule: 'a node whose clock leapt ahead has forgotten, and is enrolled again',
    file: NODE_CLOCKS,
    from: "if (verdict === 'own') this.#options",
    to: "if (verdict === 'own' && leap.aheadMs < 0) this.#options",
    killedBy: ['S1', 'S2', 'S5', 'S6'],
  },
  {
    name: 'any-clock-believed-at-first-sight',
    rule: 'who has just begun to watch does not count a node whose clock is not where the others are',
    file: NODE_CLOCKS,
    from: 'if (among) state',
    to: 'if (among !== undefined) state',
    killedBy: ['S1', 'S2', 'S5', 'S6'],
  },
  {
    name: 'copying-from-a-leapt-node',
    rule: 'a node whose clock has leapt is not asked what it remembers, also before its vote was taken away',
    file: 'test/simulation/enroller.ts',
    from: 'sentWallMs) && voting, snapshots }',
    to: 'sentWallMs) !== undefined && voting, snapshots }',
    killedBy: ['S5', 'S6', 'S2'],
  },
  {
    name: 'mismatch-ignored',
    rule: 'a key that was used for another request is refused',
    file: RULES,
    from: 'if (record.fingerprint !== command.fingerprint) {',
    to: 'if (record.fingerprint === undefined) {',
    killedBy: ['S10'],
  },
  {
    name: 'own-outcome-shown-when-fenced',
    rule: 'a late holder is answered with the outcome of the winner, never with its own',
    file: 'src/core/claims/leases.ts',
    from: "if (round.majorityReached) return { kind: 'recorded' }",
    to: "if (round.majorityReached || round.answers.some((answer) => answer?.kind === 'fenced')) return { kind: 'recorded' }",
    killedBy: ['S12', 'S6'],
  },
  {
    name: 'joined-claim-is-granted-twice',
    rule: 'of those that ask for one claim together one is granted it',
    file: SHARED,
    from: "if (request.fingerprint === underWay.fingerprint && first.kind !== 'granted')",
    to: 'if (request.fingerprint === underWay.fingerprint)',
    killedBy: ['S2'],
  },
  {
    name: 'outcome-known-before-a-majority',
    rule: 'a process answers with an outcome from its memory once a majority holds it',
    file: SHARED,
    from: "if (result.kind === 'recorded') {",
    to: "if (result.kind !== 'fenced') {",
    killedBy: ['S5', 'S6'],
  },
  {
    name: 'held-for-ever',
    rule: 'a process says "held" only under a live lease of its own',
    file: 'src/core/claims/held-leases.ts',
    from: 'if (leftMs <= 0) {',
    to: 'if (leftMs < Number.NEGATIVE_INFINITY) {',
    killedBy: ['L5'],
  },
  {
    name: 'memory-without-content',
    rule: 'an outcome from memory is shown to requests of its own content only',
    file: SHARED,
    from: "if (entry.fingerprint !== fingerprint) return { kind: 'mismatch' }",
    to: "if (entry.fingerprint === '') return { kind: 'mismatch' }",
    killedBy: ['S10'],
  },
  {
    name: 'fail-open-unasked',
    rule: 'without a quorum nothing is passed on where the route does not say so',
    file: DEDUPLICATE,
    from: 'switch (request.policy.onQuorumLoss) {',
    to: "switch ('fail-open') {",
    killedBy: ['S11'],
  },
  {
    name: 'fail-open-unmarked',
    rule: 'what was passed on with nothing to guard it is told so',
    file: 'src/core/outcome.ts',
    from: "return { kind: 'unprotected', response: result.response }",
    to: "return { kind: 'released', response: result.response, protection: 'quorum', execution: { token: 0, attempt: 1, lockId: '' } }",
    killedBy: ['S11'],
  },
  {
    name: 'local-passes-for-quorum',
    rule: 'what a process carried out by itself is not told as guarded by a quorum',
    file: DEDUPLICATE,
    from: "leases, protection: 'local' }",
    to: "leases, protection: 'quorum' }",
    killedBy: ['S11'],
  },
  {
    name: 'local-record-by-wall-clock',
    rule: 'what a process carried out by itself it knows whatever is done to its wall clock',
    file: 'src/embedded/node.ts',
    from: 'const nodeMs = () => startedMs + clock.monoMs()',
    to: 'const nodeMs = () => clock.wallMs()',
    killedBy: ['S2', 'W2'],
  },
  {
    name: 'local-completions-forgotten',
    rule: 'what a process carried out by itself it tells the quorum when it is back',
    file: WRITE_BACK,
    from: "if (result.kind === 'recorded') remember(lease, outcome)",
    to: '',
    killedBy: ['W1'],
  },
  {
    name: 'write-back-gives-up',
    rule: 'while the quorum is away a local completion waits',
    file: WRITE_BACK,
    from: "case 'unavailable':\n        return 'away'",
    to: "case 'unavailable':\n        return 'dropped'",
    killedBy: ['W1'],
  },
  {
    name: 'conflict-told-as-recorded',
    rule: 'where another outcome stands the local one is told as a conflict',
    file: WRITE_BACK,
    from: "equals(encodeOutcome(outcome)) ? 'recorded' : 'conflict'",
    to: "equals(encodeOutcome(outcome)) ? 'recorded' : 'recorded'",
    killedBy: ['W2'],
  },
  {
    name: 'orphans-not-told',
    rule: 'what lapsed without an outcome is told once',
    file: SWEEPER,
    from: '    await report(orphan)\n',
    to: '',
    killedBy: ['D3'],
  },
  {
    name: 'live-claim-told-as-orphan',
    rule: 'what a node shows as lapsed is checked by a quorum read',
    file: SWEEPER,
    from: "if (record.kind !== 'claimed' || record.remainingMs > 0) return false",
    to: "if (record.kind !== 'claimed') return false",
    killedBy: ['D2'],
  },
  {
    name: 'sighted-outcome-told-as-orphan',
    rule: 'a record of which some node shows an outcome is claimed, and so adopted, before it is told as an orphan',
    file: SWEEPER,
    from: "if (record.kind === 'unavailable' && record.minorityOutcome !== undefined)\n      return",
    to: "if (record.kind === 'unavailable' && record.minorityOutcome !== undefined)\n      await report({ recordKey, ...record.minorityOutcome })\n    if (record.kind === 'unavailable' && record.minorityOutcome !== undefined)\n      return",
    killedBy: ['D1'],
  },
  {
    name: 'unknown-taken-for-released',
    rule: 'where nobody knows whether it was carried out the next attempt is told so',
    file: SWEEPER,
    from: "      case 'unknown':\n        return false\n",
    to: "      case 'unknown':\n",
    killedBy: ['S2'],
  },
  // Nodes that come back with their data.
  {
    name: 'loss-window-ignored',
    rule: 'a disk that syncs once in a while may have lost what was acknowledged since the pulse that survives',
    file: CONTINUITY,
    from: 'if (!sameRun || !pulse.durable || !node.durable) return false',
    to: 'if (!sameRun) return false',
    killedBy: ['S1', 'S2', 'S4', 'S5', 'S6'],
  },
  {
    name: 'flushed-after-its-start',
    rule: 'a node may also forget while its process goes on, and has forgotten all that was before that was noticed',
    file: CONTINUITY,
    from: 'return Math.max(sinceMs, startedNodeMs + START_GRANULARITY_MS)',
    to: 'return startedNodeMs + START_GRANULARITY_MS',
    killedBy: ['S1', 'S2', 'S4', 'S5', 'S6'],
  },
  {
    name: 'rollback-not-noticed',
    rule: 'a node whose later pulse another one knows was set back, however its disk syncs',
    file: CONTINUITY,
    from: 'some((known) => known > pulse.nodeMs)) return false',
    to: 'some((known) => known > pulse.nodeMs + 86_400_000)) return false',
    killedBy: ['S1', 'S2', 'S4', 'S5', 'S6'],
  },
  {
    name: 'union-of-a-majority-only',
    rule: 'a node that is silent may be the only one that knows: a majority that answers is not all that there is to hear',
    file: CONTINUITY,
    from: "if (node.kind === 'silent' || !node.clockAgrees) return EVERYTHING",
    to: "if (node.kind === 'silent') return undefined\n  if (!node.clockAgrees) return EVERYTHING",
    killedBy: ['S1', 'S2', 'S4', 'S5', 'S6'],
  },
  {
    name: 'late-answers-not-waited-for',
    rule: 'what a node answered before it was started again may still be counted for a while: until then it is told nothing',
    file: 'src/core/nodes/continuing.ts',
    from: 'return answerMaxAgeMs + driftMs(answerMaxAgeMs)',
    to: 'return Math.min(0, driftMs(answerMaxAgeMs))',
    killedBy: ['S1', 'S2', 'S4', 'S5', 'S6'],
  },
  {
    name: 'running-leases-not-kept',
    rule: 'a lease that a merge drops, below the fence of another, is waited for',
    file: 'src/core/nodes/live-leases.ts',
    from: 'watch.owes(lease.remainingMs)',
    to: 'watch.owes(0)',
    killedBy: ['S1', 'S2'],
  },
  {
    name: 'refused-by-a-majority-is-without-effect',
    rule: 'a completion is called without effect only where no node may have it',
    file: 'src/core/quorum/refused-completion.ts',
    from: "answers.some((answer) => mayHaveIt(answer, offered)) ? 'undecided' : 'fenced'",
    to: "answers.some((answer) => mayHaveIt(answer, offered)) ? 'fenced' : 'fenced'",
    killedBy: ['C1'],
  },
  {
    name: 'adopted-is-refused',
    rule: 'who says again what somebody else has adopted is told that it is recorded',
    file: 'src/core/quorum/refused-completion.ts',
    from: "return isAdoptionOf(chosen, offered) ? { kind: 'recorded' } : { kind: 'fenced', chosen }",
    to: "return { kind: 'fenced', chosen }",
    killedBy: ['C1', 'C2'],
  },
  {
    name: 'free-though-a-majority-may-hold-it',
    rule: 'a claim that is seen on fewer than a majority, and that a majority may hold, is not called free',
    file: 'src/core/quorum/majority-read.ts',
    from: 'if (mayBeHeld) return uncertain',
    to: 'if (mayBeHeld && silent < 0) return uncertain',
    killedBy: ['R2'],
  },
  {
    name: 'read-outcome-not-helped',
    rule: 'an outcome that a minority shows, and that a majority may have, is not called a claim',
    file: 'src/core/quorum/majority-read.ts',
    from: 'return standing !== undefined && surelyNotChosen\n',
    to: 'if (standing === undefined && heard.views[0] !== undefined) return heard.views[0]\n    return standing !== undefined && surelyNotChosen\n',
    killedBy: ['R1', 'D1'],
  },
  {
    name: 'founding-without-a-window',
    rule: 'a cluster is founded when nobody has objected for a while',
    file: 'src/core/nodes/founding.ts',
    from: 'return Math.max(FOUNDING_WINDOW_MS, connectTimeoutMs + BESIDE_DIALLING_MS)',
    to: 'return 0 * connectTimeoutMs',
    killedBy: ['F1'],
  },
  {
    name: 'nobody-objects',
    rule: 'who knows the cluster of a node says so on it before it can be founded anew',
    file: 'test/simulation/membership.ts',
    from: 'const forgot = wasVoting[at] || knew',
    to: 'const forgot = (wasVoting[at] && !knew)',
    killedBy: ['F1'],
  },
  {
    name: 'race-taken-for-a-mark',
    rule: 'a content whose claim lost a race is marked by nobody yet, and so not carried out',
    file: 'src/core/request/duplicate-content.ts',
    from: "  if (claimed.kind !== 'granted') return claimed",
    to: "  if (claimed === UNKNOWN) return { kind: 'marked', leases: ports.leases }\n  if (claimed.kind !== 'granted') return claimed",
    killedBy: ['K1'],
  },
  {
    name: 'mismatches-added-up',
    rule: "a key is another request's where a majority shows that one request",
    file: 'src/core/quorum/refused-claim.ts',
    from: "return claims.every(({ remainingMs }) => remainingMs === 0) ? 'lapsed' : 'several'",
    to: "return 'one'",
    killedBy: ['L3'],
  },
  {
    name: 'renewal-of-any-future',
    rule: 'no renewal lifts a record further ahead than a claim may',
    file: RULES,
    from: 'if ((record === undefined || token > record.fence) && isTooFarAhead(token, nodeMs, maxTokenAheadMs))',
    to: 'if (record === undefined && token < nodeMs - maxTokenAheadMs)',
    killedBy: ['L5'],
  },
  {
    name: 'any-cluster-accepted',
    rule: 'a process works with one cluster for life',
    file: 'src/redis/known-cluster.ts',
    from: 'if (known === undefined || found === undefined || known === found) return undefined',
    to: 'if (known !== found || known === found) return undefined',
    killedBy: ['F2'],
  },
  {
    name: 'late-adoption',
    rule: 'what a node is told for its enrolment counts only while it waits',
    file: 'src/core/nodes/enrolment-rules.ts',
    from: 'return !isEnrolled(member) && isQuarantined(member) && member.quarantine.nonce === nonce',
    to: 'return member !== undefined && nonce !== undefined',
    killedBy: ['S1', 'S2', 'S4', 'S10'],
  },
  {
    name: 'answers-of-any-age',
    rule: 'no answer counts that is read when its node may have forgotten it and vote again',
    file: 'src/core/quorum/answer-age.ts',
    from: 'return Math.max(at.monoMs - askedAt.monoMs, at.wallMs - askedAt.wallMs)',
    to: 'return Math.min(0, at.monoMs - askedAt.monoMs)',
    killedBy: ['S6', 'S5'],
  },
  {
    name: 'full-node-says-nothing',
    rule: 'a node without memory answers of what it has recorded',
    file: 'test/simulation/node.ts',
    from: "(answer.kind !== 'granted' && answer.kind !== 'recorded')",
    to: "answer.kind === 'record'",
    killedBy: ['M1'],
  },
  {
    name: 'read-without-help',
    rule: 'an outcome that a minority shows is told by a read once it has helped it to a majority',
    file: 'src/core/claims/leases.ts',
    from: 'if (await helpToMajority(key, says, round.answers, quorum)) return completed',
    to: 'if (key !== undefined || helpToMajority !== undefined) return completed',
    killedBy: ['S5', 'S6', 'R1', 'R2'],
  },
  {
    name: 'silent-nodes-hold-no-claim',
    rule: 'nothing is told as free while a majority may hold it',
    file: 'src/core/quorum/majority-read.ts',
    from: '  if (mayBeHeld) return uncertain\n',
    to: '',
    killedBy: ['R2'],
  },
]

/** Breaks the modules that are loaded from now on. To be called before any of them is. */
export function breakWith(name: string): void {
  const mutant = MUTANTS.find((one) => one.name === name)
  if (mutant === undefined) throw new RangeError(`no mutant ${name}`)
  const url = new URL(`../../${mutant.file}`, import.meta.url).href
  registerHooks({
    load: (loaded, context, nextLoad) => {
      const result = nextLoad(loaded, context)
      if (loaded !== url) return result
      const source = String(result.source)
      if (source.split(mutant.from).length !== 2) {
        throw new Error(
          `the rule that ${name} takes out does not stand once in ${mutant.file}: ${mutant.from}`,
        )
      }
      return { ...result, source: source.replace(mutant.from, () => mutant.to) }
    },
  })
}
