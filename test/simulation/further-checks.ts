/**
 * The checkers across several records: one content under several keys, one entity of several requests.
 *
 * Owns the judgement only, like `checks.ts`.
 */

import { entityKeyOf } from './actors.ts'
import { type Execution, type History, heldUntilMs } from './history.ts'
import { HEAL_MS, LEASE_MS } from './plan.ts'
import type { World } from './world.ts'

/** K1: one content is executed under one key only, unless that key ended without a record. */
export function checkContents(history: History): void {
  const marked = history.executions.flatMap((execution) => {
    const submission = history.submissionOf(execution.operation)
    return submission?.operation.kind === 'request' && submission.operation.marked === true
      ? [{ execution, submission, content: submission.operation.content }]
      : []
  })
  for (const [at, later] of marked.entries()) {
    for (const earlier of marked.slice(0, at)) {
      if (earlier.content !== later.content || earlier.submission.key === later.submission.key) continue
      const { outcome } = earlier.submission
      if (outcome?.kind === 'released' || outcome?.kind === 'never_sent') continue
      history.violated(
        'K1',
        later.execution.startedMs,
        `${later.execution.id} executed the content of ${earlier.execution.id} under another key (${outcome?.kind})`,
      )
    }
  }
}

/** E1: each request for an entity gets a larger token than the one before it, as long as it holds the entity. */
export function checkEntities(history: History): void {
  const largest = new Map<number, Execution>()
  for (const execution of history.executions) {
    const operation = history.submissionOf(execution.operation)?.operation
    if (operation?.kind !== 'request' || operation.entities === undefined) continue
    for (const entity of operation.entities) {
      const grant = history.grants.find(
        ({ lease, process }) =>
          lease.key === entityKeyOf(entity) &&
          lease.token === execution.token &&
          process === execution.process,
      )
      const held = grant !== undefined && heldUntilMs(grant) > execution.startedMs
      const before = largest.get(entity)
      if (held && before !== undefined && before.token >= execution.token) {
        history.violated(
          'E1',
          execution.startedMs,
          `${execution.id} works on entity ${entity} under token ${execution.token}, after ${before.id} under ${before.token}`,
        )
      }
      if (before === undefined || before.token < execution.token) largest.set(entity, execution)
    }
  }
}

/** Where no claim of a key was granted, any other outcome says that a claimant found no quorum. */
const LOST_A_RACE: ReadonlySet<string> = new Set(['mismatch', 'in_progress', 'too_many_waiters'])

/**
 * L3: without faults one of the claimants of a key is granted it, whatever their contents; and no client is told of
 * another content that no claimant holds.
 */
export function checkRaces({ history, plan }: World): void {
  const { lossRate, duplicateRate, lateRate } = plan.network
  if (plan.faults.length > 0 || lossRate + duplicateRate + lateRate > 0) return
  const asked = history.submissions.filter(({ operation, healed }) => operation.kind === 'request' && !healed)
  for (const [key, racers] of Map.groupBy(asked, (submission) => submission.key)) {
    if (history.grants.some(({ lease, grantedMs }) => lease.key === key && grantedMs < HEAL_MS)) continue
    // A claim may stand on a majority whose answers miss their deadline: to be told of it is the truth as known then.
    if (history.unheardClaims.has(key)) continue
    if (racers.some(({ outcome }) => outcome !== undefined && !LOST_A_RACE.has(outcome.kind))) continue
    for (const { operation, index, outcome, answeredMs = HEAL_MS } of racers) {
      // A majority may show a content of two racers of which neither wins: but then another claimant does.
      // Nodes too far away to answer within their deadline make no quorum: then the route decides.
      const waited = operation.kind === 'request' && operation.waitMs >= LEASE_MS
      if (outcome?.kind === 'mismatch' || (waited && outcome?.kind === 'in_progress'))
        history.violated(
          'L3',
          answeredMs,
          `${index} was told ${outcome?.kind} of ${key}, which no claim was granted`,
        )
    }
  }
}

/**
 * M1: where only memory is short, a duplicate of a recorded request is answered. M2: and a request that began while
 * there was room is recorded as long as nodes refuse new records only.
 */
export function checkFull({ history, plan }: World): void {
  const { lossRate, duplicateRate, lateRate } = plan.network
  const full = plan.faults.flatMap((fault) => (fault.kind === 'node_full' ? [fault] : []))
  if (full.length === 0 || full.length < plan.faults.length || lossRate + duplicateRate + lateRate > 0) return
  const stuckMs = Math.min(...full.filter(({ refuses }) => refuses === 'writes').map(({ atMs }) => atMs))
  for (const { key, index, askedMs, answeredMs = 0, outcome } of history.submissions) {
    const known = history.shown.some((shown) => shown.key === key && shown.atMs < askedMs)
    if (known && outcome?.kind !== 'replayed')
      history.violated(
        'M1',
        answeredMs,
        `${index} asked for what was recorded, and was told ${outcome?.kind}`,
      )
    if (outcome?.kind === 'unstored' && answeredMs < stuckMs)
      history.violated('M2', answeredMs, `${index} was begun while there was room, and is not recorded`)
  }
}
