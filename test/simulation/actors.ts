/**
 * The users of the sidecars: requests through `deduplicate`, clients of the reservation API, readers.
 *
 * Owns what they do by the plan. Everything that decides is production code.
 */

import { KEPT_WHILE_ALIVE, renewLease } from '../../src/core/claims/lease-renewer.ts'
import { deduplicate } from '../../src/core/deduplicate.ts'
import type { Outcome } from '../../src/core/outcome.ts'
import type { ForwardContext } from '../../src/core/ports.ts'
import type { DedupPolicy } from '../../src/core/protected-request.ts'
import type { StoredOutcome } from '../../src/core/record/stored-outcome.ts'
import { pause } from '../../src/core/retry.ts'
import { STORING } from '../support/policies.ts'
import type { Application } from './application.ts'
import { decideAsPlanned } from './decisions.ts'
import { type Dice, streamOf } from './dice.ts'
import type { History, Submission } from './history.ts'
import type { Operation, Plan } from './plan.ts'
import type { Scheduler } from './scheduler.ts'
import { reserveTogether } from './sessions.ts'
import { contentOf, type Sidecar } from './sidecar.ts'
import type { Votes } from './votes.ts'

export type ActorPorts = {
  readonly seed: number
  readonly scheduler: Scheduler
  readonly history: History
  readonly application: Application
  /** The run of it that is alive now. */
  readonly sidecarOf: (slot: number) => Sidecar | undefined
  readonly retentionMs: number
  readonly votes: Votes
  readonly network: Plan['network']
}

export function keyOf(number: number): string {
  return `dedup:sim:e:v:${String(number).padStart(64, '0')}`
}

/** The record that stands for a content (mode `both`). */
export function markKeyOf(content: number): string {
  return `${MARKS}${String(content).padStart(64, '0')}`
}

const MARKS = 'dedup:sim:e:c:'

export function isMark(key: string): boolean {
  return key.startsWith(MARKS)
}

export function entityKeyOf(entity: number): string {
  return `dedup:sim:e:n:${String(entity).padStart(64, '0')}`
}

export function fingerprintOf(content: number): string {
  return String(content).repeat(64)
}

/** Settles with the operation; never where its process dies before. */
export async function perform(
  operation: Operation,
  index: number,
  sidecar: Sidecar,
  healed: boolean,
  ports: ActorPorts,
): Promise<void> {
  const { history, scheduler } = ports
  const submission: Submission = {
    index,
    operation,
    key: keyOf(operation.kind === 'session' ? (operation.keys[0] ?? 0) : operation.key),
    fingerprint: 'content' in operation ? fingerprintOf(operation.content) : '',
    process: sidecar.process.name,
    askedMs: scheduler.nowMs,
    healed,
    forwarded: false,
    without: undefined,
    answeredMs: undefined,
    outcome: undefined,
  }
  history.submissions.push(submission)
  history.step(
    scheduler.nowMs,
    4,
    () => `${submission.process} begins ${operation.kind} ${index} of ${submission.key}`,
  )
  switch (operation.kind) {
    case 'request':
      submission.outcome = await request(operation, submission, sidecar, ports)
      noteOutcome(submission.outcome, submission, ports)
      break
    case 'reservation':
      await reservation(operation, submission, sidecar, ports)
      break
    case 'session':
      await reserveTogether(operation, submission, sidecar, ports)
      break
    case 'decision':
      await decideAsPlanned(operation, submission, sidecar, ports)
      break
    case 'read': {
      const { key, process } = submission
      const result = await sidecar.leases.read(key)
      history.looked.push({ key, process, askedMs: submission.askedMs, answeredMs: scheduler.nowMs, result })
    }
  }
  submission.answeredMs = scheduler.nowMs
  const said = submission.outcome?.kind ?? 'done'
  history.step(scheduler.nowMs, 5, () => `${submission.process} ends ${operation.kind} ${index}: ${said}`)
}

async function request(
  operation: Extract<Operation, { kind: 'request' }>,
  submission: Submission,
  sidecar: Sidecar,
  { seed, application, history, scheduler, retentionMs }: ActorPorts,
): Promise<Outcome> {
  const { process, leases, waiters, background, events } = sidecar
  const { onQuorumLoss } = operation
  const policy: DedupPolicy = {
    leaseMs: operation.leaseMs,
    retentionMs,
    budgetMs: 100,
    settleBudgetMs: 300,
    totalHoldMs: 3_600_000,
    renewFraction: 1 / 3,
    waitMs: operation.waitMs,
    takeover: operation.takeover,
    onQuorumLoss,
    ...STORING,
  }
  const forward = async (context: ForwardContext | undefined) => {
    if (context === undefined) {
      submission.without = 'nothing'
      if (onQuorumLoss !== 'fail-open')
        history.violated('S11', scheduler.nowMs, `request ${submission.index} was passed on unprotected`)
    }
    return application.carryOut(submission, context, operation.work, process)
  }
  const random: Dice = streamOf(seed, 'request', submission.index)
  return deduplicate(
    {
      recordKey: submission.key,
      fingerprint: submission.fingerprint,
      policy,
      forward,
      ...(operation.marked === undefined
        ? {}
        : {
            contentRecord: {
              recordKey: markKeyOf(operation.content),
              fingerprint: fingerprintOf(operation.key),
            },
          }),
      ...(operation.entities === undefined
        ? {}
        : { entities: { recordKeys: operation.entities.map(entityKeyOf), waitMs: operation.waitMs } }),
    },
    {
      leases,
      whenEnded: sidecar.whenEnded,
      localLeases: {
        ...sidecar.localLeases,
        claim: (asked) => {
          submission.without = 'local'
          return sidecar.localLeases.claim(asked)
        },
        read: async (key) => {
          const own = await sidecar.localLeases.read(key)
          if (own.kind === 'completed') submission.without = 'local'
          return own
        },
      },
      waiters,
      background,
      clock: process.clock,
      random,
      events,
    },
  )
}

function noteOutcome(outcome: Outcome, submission: Submission, { history, scheduler }: ActorPorts): void {
  switch (outcome.kind) {
    case 'replayed': {
      if (submission.without === 'local') {
        history.saw('local_replayed')
        return
      }
      history.saw('replayed')
      const { key, fingerprint, askedMs } = submission
      const content = contentOf(outcome.stored)
      history.shown.push({ key, fingerprint, content, askedMs, atMs: scheduler.nowMs, by: 'replayed' })
      return
    }
    case 'gone': {
      const { key, fingerprint, askedMs } = submission
      if (submission.without === 'local') return
      const content = contentOf(outcome.stored)
      history.shown.push({ key, fingerprint, content, askedMs, atMs: scheduler.nowMs, by: 'replayed' })
      return
    }
    case 'created':
      history.saw(submission.without === 'local' ? 'local_created' : 'created')
      return
    case 'unprotected':
    case 'mismatch':
    case 'in_progress':
    case 'unstored':
    case 'indeterminate':
    case 'undecided':
    case 'duplicate_content':
    case 'entity_busy':
      history.saw(outcome.kind)
      return
    default:
      return
  }
}

async function reservation(
  operation: Extract<Operation, { kind: 'reservation' }>,
  submission: Submission,
  sidecar: Sidecar,
  { seed, scheduler, history, application, retentionMs }: ActorPorts,
): Promise<void> {
  const { process, leases, events } = sidecar
  const { clock } = process
  const random = streamOf(seed, 'reservation', submission.index)
  const claimed = await leases.claim({
    key: submission.key,
    fingerprint: submission.fingerprint,
    leaseMs: operation.leaseMs,
    retentionMs,
    budgetMs: 100,
  })
  if (claimed.kind === 'duplicate') {
    const content = contentOf(claimed.outcome)
    const { key, fingerprint, askedMs } = submission
    history.shown.push({ key, fingerprint, content, askedMs, atMs: scheduler.nowMs, by: 'replayed' })
  }
  if (claimed.kind !== 'granted') return
  const renewer = renewLease(claimed.lease, { leases, clock, random, events }, KEPT_WHILE_ALIVE)
  const lost = new Promise<void>((resolve) => {
    renewer.lost.addEventListener('abort', () => resolve(), { once: true })
  })
  application.write(submission.key, claimed.lease.token)
  await Promise.race([pause(clock, operation.workMs), lost])
  const lease = renewer.lease()
  const result: StoredOutcome = {
    kind: 'result',
    result: `reservation ${submission.index}`,
    completedAtWallMs: clock.wallMs(),
  }
  const grant = history.grantOf(lease)
  switch (operation.ends) {
    case 'completes':
    case 'completes_twice':
      // Stopped first: a renewal under way must not disturb what follows.
      renewer.stop('completed')
      await leases.complete(lease, result)
      if (operation.ends === 'completes_twice') await leases.complete(lease, result)
      if (grant !== undefined) grant.abandonedMs = scheduler.nowMs
      return
    case 'releases':
      await leases.release(lease)
      renewer.stop('released')
      return
    case 'completes_later':
      // Without a first answer, or to be sure: it repeats the same completion, when its lease may be over.
      renewer.stop('completed')
      await leases.complete(lease, result)
      if (grant !== undefined) grant.abandonedMs = scheduler.nowMs
      await pause(clock, 1.5 * operation.leaseMs)
      await leases.complete(lease, { ...result, completedAtWallMs: clock.wallMs() })
      return
    case 'vanishes':
      renewer.stop('abandoned')
      if (grant !== undefined) grant.abandonedMs = scheduler.nowMs
      return
    case 'late_complete':
    case 'late_release':
      // A holder that ignores the warning: it acts long after the end of its lease, and also writes to the resource.
      renewer.stop('abandoned')
      if (grant !== undefined) grant.abandonedMs = scheduler.nowMs
      await pause(clock, 2 * operation.leaseMs)
      application.write(submission.key, lease.token)
      if (operation.ends === 'late_complete') await leases.complete(lease, result)
      else await leases.release(lease)
  }
}
