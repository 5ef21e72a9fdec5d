/**
 * The operators: each looks at a record, thinks, and decides about it through any process.
 *
 * Owns what an operator's words take back: a lease that it ends although it is live, attempts that it says were never
 * executed, an outcome that it has forgotten or replaced. From its first command on the history says so, and only then:
 * whatever an operator did not say stays promised. Everything that decides is production code.
 */

import type { AuditEntry, AuditLog } from '../../src/core/coordination/audit-log.ts'
import type { Orphan, Verdict } from '../../src/core/coordination/settle-orphan.ts'
import { type DeadLetterDecided, decideDeadLetter } from '../../src/core/operator/dead-letters.ts'
import { type Decided, type DecisionPorts, decide } from '../../src/core/operator/decide.ts'
import { type RecordView, recordView } from '../../src/core/operator/record-view.ts'
import type { Lease, Leases } from '../../src/core/ports.ts'
import type { StoredOutcome } from '../../src/core/record/stored-outcome.ts'
import { pause } from '../../src/core/retry.ts'
import { encodeOutcome } from '../support/encoded-outcome.ts'
import type { ActorPorts } from './actors.ts'
import { type Dice, streamOf } from './dice.ts'
import type { Deed, Submission } from './history.ts'
import { LEASE_MS, type Operation } from './plan.ts'
import { contentOf, type Sidecar, unattended } from './sidecar.ts'

type DecisionOperation = Extract<Operation, { kind: 'decision' }>

/** One operator at one record. */
type Desk = ActorPorts & {
  readonly operation: DecisionOperation
  readonly sidecar: Sidecar
  readonly deed: Deed
  readonly dice: Dice
  /** What it saw last, on which it acts. */
  view: RecordView
}

export async function decideAsPlanned(
  operation: DecisionOperation,
  { key, index }: Submission,
  sidecar: Sidecar,
  ports: ActorPorts,
): Promise<void> {
  const { history, scheduler } = ports
  const look = async () => recordView(key, await sidecar.operated.inspect(key))
  const view = await look()
  await pause(sidecar.process.clock, operation.thinksMs)
  const deed: Deed = {
    key,
    process: sidecar.process.name,
    decides: operation.decides,
    dry: operation.dry === true,
    askedMs: scheduler.nowMs,
    expects: operation.expects ? view.token : undefined,
    sawOutcome: view.outcome !== undefined,
    wrote: false,
    toldMs: undefined,
    told: undefined,
    nothingDecided: false,
    forgot: undefined,
  }
  history.deeds.push(deed)
  const dice = streamOf(ports.seed, 'operator', index)
  const desk: Desk = { ...ports, operation, sidecar, deed, dice, view }
  const { decides } = operation
  const told =
    decides === 'requeue' || decides === 'discard' || decides === 'discard_completed'
      ? await decideOnDeadLetter(desk)
      : await decideOnRecord(decides, desk, index, look)
  deed.told = told
  deed.toldMs = scheduler.nowMs
  if (told === 'done') history.saw(`decided_${decides}`)
  else if (told !== 'unknown' && told !== 'cannot_ask') history.saw(`decision_${told}`)
  history.step(deed.toldMs, 12, () => `${deed.process} decides ${decides}: ${told}`)
}

async function decideOnRecord(
  decision: 'end' | 'complete' | 'forget' | 'ask',
  desk: Desk,
  index: number,
  look: () => Promise<RecordView>,
): Promise<Decided['kind']> {
  const { sidecar, deed, operation, retentionMs, history, scheduler } = desk
  const { clock } = sidecar.process
  const outcome: StoredOutcome = {
    kind: 'result',
    result: `by hand ${index}`,
    completedAtWallMs: clock.wallMs(),
  }
  const ports: DecisionPorts = {
    inspect: async () => {
      desk.view = await look()
      return desk.view
    },
    leases: leasesAt(desk),
    auditLog: auditLogAt(desk),
    terms: { leaseMs: LEASE_MS, retentionMs },
    clock,
    ask: (orphan) => asked(orphan, desk),
    forgetHere: sidecar.operated.forgetHere,
  }
  const decided = await decide(
    {
      decision,
      recordKey: deed.key,
      by: deed.process,
      reason: 'by the plan',
      dryRun: operation.dry === true,
      ...(operation.says === undefined ? {} : { evenThough: operation.says }),
      ...(deed.expects === undefined ? {} : { expectedToken: deed.expects }),
      ...(decision === 'complete' ? { outcome } : {}),
    },
    ports,
  )
  deed.nothingDecided =
    (decided.kind === 'unavailable' && !decided.begun) ||
    (decided.kind === 'done' && decided.verdict === 'unknown')
  // What it decided about in the end: an outcome may have come while the operator thought, and the operator said so.
  if (decided.kind === 'done') deed.sawOutcome = decided.before.outcome !== undefined
  if (decided.kind === 'done' && decision === 'complete') {
    const { fingerprint = '' } = decided.before
    const [content, askedMs] = [contentOf(outcome), deed.askedMs]
    history.shown.push({
      key: deed.key,
      fingerprint,
      content,
      askedMs,
      atMs: scheduler.nowMs,
      by: 'decided',
    })
  }
  return decided.kind
}

/** The letter that the sweeper would have written when the operator looked. */
async function decideOnDeadLetter(desk: Desk): Promise<DeadLetterDecided['kind'] | 'refused'> {
  const { view, deed, operation, sidecar, retentionMs } = desk
  if (view.state !== 'expired') return 'refused'
  const { fingerprint = '', attempt = 1, token = 0 } = view
  const letter: AuditEntry = {
    id: `orphan:${deed.key}:${token}`,
    kind: 'orphan',
    atWallMs: sidecar.process.clock.wallMs(),
    recordKey: deed.key,
    fields: { fingerprint, attempt: String(attempt), token: String(token) },
  }
  const decided = await decideDeadLetter(
    {
      act: operation.decides === 'requeue' ? 'requeue' : 'discard',
      id: letter.id,
      by: deed.process,
      reason: 'by the plan',
      completed: operation.decides === 'discard_completed',
      dryRun: operation.dry === true,
    },
    {
      leases: leasesAt(desk),
      auditLog: { ...auditLogAt(desk), read: async () => ({ kind: 'entries', entries: [letter] }) },
      terms: { leaseMs: LEASE_MS, retentionMs },
      clock: sidecar.process.clock,
    },
  )
  return decided.kind
}

/** The leases of production, and a note of each promise that the operator takes back, before the nodes hear of it. */
function leasesAt(desk: Desk): Leases {
  const { sidecar, history, scheduler, deed, operation, votes } = desk
  const { unnoted } = sidecar.operated
  const own = unattended(sidecar.guarded, history, scheduler)
  const isOwn = (lease: Lease) => history.grantOf(lease) !== undefined
  return {
    ...own,
    claim: (request) => {
      deed.wrote ||= request.key === deed.key
      return own.claim(request)
    },
    renew: async (lease) => {
      if (isOwn(lease)) {
        if (operation.decides === 'forget' || operation.decides === 'requeue') forgetAttempts(desk)
        return own.renew(lease)
      }
      deed.wrote = true
      if (operation.says === 'live') {
        const { key, token: upToToken, owner } = lease
        history.overrule({ key, upToToken, owner, fromMs: scheduler.nowMs, how: 'takenMs' })
      }
      const startedMs = scheduler.nowMs
      const result = await unnoted.renew(lease)
      if (result.kind === 'renewed')
        votes.checkRenewal(result.lease, startedMs, scheduler.nowMs, sidecar.process.clock.monoMs())
      return result
    },
    complete: async (lease, outcome) => {
      if (isOwn(lease)) return own.complete(lease, outcome)
      deed.wrote = true
      if (operation.says === 'completed') forgetOutcome(desk)
      const result = await unnoted.complete(lease, outcome)
      if (result.kind === 'recorded') votes.checkRecorded(lease, encodeOutcome(outcome, lease.token))
      return result
    },
    release: (lease) => (isOwn(lease) ? own.release(lease) : unnoted.release(lease)),
    purge: (lease) => {
      deed.wrote = true
      forgetOutcome(desk)
      return unnoted.purge(lease)
    },
  }
}

/** Of the attempts that it saw: a later one has a larger token, and is no part of the decision. */
function forgetAttempts({ history, scheduler, view: { recordKey: key, token: upToToken = 0 } }: Desk): void {
  history.overrule({ key, upToToken, fromMs: scheduler.nowMs, how: 'forgottenMs' })
}

function forgetOutcome(desk: Desk): void {
  const { history, scheduler, deed, operation, view } = desk
  if (view.outcome === undefined) return
  const [key, content, fromMs] = [deed.key, contentOf(view.outcome), scheduler.nowMs]
  const replaced = operation.decides === 'complete'
  deed.forgot = content
  history.forgettings.push({ key, content, fromMs, replaced })
  history.saw(replaced ? 'outcome_replaced' : 'outcome_forgotten')
  if (replaced) return
  const upToToken = view.largestToken ?? 0
  for (const how of ['takenMs', 'forgottenMs'] as const) history.overrule({ key, upToToken, fromMs, how })
}

/** Some notes are lost: then nothing is decided. */
function auditLogAt({ sidecar, dice, network }: Desk): AuditLog {
  const noted = async () => {
    await pause(sidecar.process.clock, 1 + dice.fraction() * 5)
    return !dice.chance(network.lossRate / 2)
  }
  return { append: noted, remove: noted, read: async () => ({ kind: 'entries', entries: [] }) }
}

function asked({ recordKey, token }: Orphan, desk: Desk): Promise<Verdict> {
  const { application, scheduler, sidecar, dice } = desk
  return new Promise((resolve) => {
    const answer = (verdict: Verdict) =>
      scheduler.after(1 + dice.fraction() * 20, () => sidecar.process.deliver(() => resolve(verdict)))
    if (dice.chance(0.2)) return void answer('unknown')
    scheduler.after(1, () => answer(application.whatBecameOf(recordKey, token)))
  })
}
