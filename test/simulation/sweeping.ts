/**
 * The leadership of the sweeper in a simulated cluster: every process campaigns for it, and the leader looks for orphans.
 *
 * Owns what the sweeper needs from outside, over simulated nodes and an application that knows what it did: the walk over
 * a node's claims, the dead letters, the query. Election, sweeping and settling are production code. A report of an
 * orphan is judged when it is made, because later the record may differ.
 */

import { createSweeper, paused } from '../../src/coordination/sweeper.ts'
import { type AuditEntry, type AuditLog, reportingUntaken } from '../../src/core/coordination/audit-log.ts'
import { campaign } from '../../src/core/coordination/election.ts'
import type { Verdict } from '../../src/core/coordination/settle-orphan.ts'
import { SILENT } from '../../src/core/events.ts'
import type { Leases } from '../../src/core/ports.ts'
import { NO_OWNER } from '../../src/core/record/record.ts'
import { majorityOf } from '../../src/core/units.ts'
import type { Application } from './application.ts'
import { streamOf } from './dice.ts'
import type { History } from './history.ts'
import type { SimulatedNode } from './node.ts'
import { LEADERSHIP, LEASE_MS, type Plan, RETENTION_MS } from './plan.ts'
import { call } from './rejoining-node.ts'
import type { Scheduler } from './scheduler.ts'
import { type Sidecar, unattended } from './sidecar.ts'

const LEADERSHIP_LEASE_MS = 1_200
const SWEEP_EVERY_MS = 400

export type SweepingPorts = {
  readonly plan: Plan
  readonly nodes: readonly SimulatedNode[]
  readonly scheduler: Scheduler
  readonly history: History
  readonly application: Application
  readonly healed: () => boolean
}

/** @returns a function that ends its candidacy */
export function campaignToSweep(sidecar: Sidecar, number: number, ports: SweepingPorts): () => void {
  const { plan, nodes, scheduler, history, application, healed } = ports
  const { process, guarded, events } = sidecar
  const { clock } = process
  const dice = streamOf(plan.seed, 'sweeper', number)
  // A node that does not answer now: the walk goes on with the others.
  const onFailure = () => {}
  /** When each record was last asked for, where the nodes told anything of it. */
  const lookedMs = new Map<string, number>()
  const leases: Leases = {
    ...unattended(guarded, history, scheduler),
    read: async (key) => {
      const askedMs = scheduler.nowMs
      const read = await guarded.read(key)
      if (read.kind !== 'unavailable' || read.minorityOutcome !== undefined) lookedMs.set(key, askedMs)
      return read
    },
  }
  const auditLog: AuditLog = {
    append: async (_, entry) => {
      if (!healed() && dice.chance(plan.network.lossRate)) return false
      checkLetter(entry, lookedMs.get(entry.recordKey) ?? 0, ports)
      return true
    },
    // Letters about failed renewals are decided on real nodes (test/redis/coordination.test.ts).
    read: async () => ({ kind: 'entries', entries: [] }),
    remove: async () => true,
  }
  const sweeper = createSweeper({
    sources: nodes.map((node) => ({
      expired: async () => {
        const shown = { process, scheduler, network: plan.network, healed, dice }
        const found = await call(node, node.runId, shown, () => (node.voting ? expiredOn(node) : undefined))
        if (found === undefined) throw new Error(`${node.name} does not vote now`)
        return { found, cursor: '0' }
      },
    })),
    leases,
    auditLog,
    clock,
    terms: { leaseMs: LEASE_MS, retentionMs: RETENTION_MS },
    ask: plan.sweep === 'asks' ? ({ recordKey, token }) => asked(recordKey, token) : undefined,
    untaken: reportingUntaken(clock, SILENT),
    onFailure,
  })

  function asked(key: string, token: number): Promise<Verdict> {
    return new Promise((resolve) => {
      const lost = !healed() && dice.chance(plan.network.lossRate)
      const answer = (verdict: Verdict) =>
        scheduler.after(1 + dice.fraction() * 20, () => process.deliver(() => resolve(verdict)))
      if (lost || dice.chance(0.2)) return void answer('unknown')
      scheduler.after(1, () => answer(application.whatBecameOf(key, token)))
    })
  }

  const candidate = campaign({
    recordKey: LEADERSHIP,
    leaseMs: LEADERSHIP_LEASE_MS,
    lead: async ({ over }) => {
      history.saw('swept')
      while (!over.aborted) {
        await sweeper.sweepOnce(over)
        await paused(clock, SWEEP_EVERY_MS, over)
      }
    },
    onFailure,
    leases: guarded,
    clock,
    random: dice,
    events,
  })
  return () => void candidate[Symbol.asyncDispose]()
}

function expiredOn(node: SimulatedNode) {
  return [...node.keys].flatMap((recordKey) => {
    const record = node.peek(recordKey)
    return record?.state === 'claimed' && record.leaseUntilNodeMs <= node.nodeMs
      ? [{ recordKey, token: record.fence }]
      : []
  })
}

/** D1: no record with an outcome at the inspection is an orphan. D2: nor one with a holder. */
function checkLetter(
  { recordKey, fields }: AuditEntry,
  lookedMs: number,
  { history, scheduler }: SweepingPorts,
) {
  history.saw('orphan_told')
  history.orphansTold.add(recordKey)
  const token = Number(fields.token)
  for (const grant of history.grants) {
    if (grant.lease.key !== recordKey) continue
    if (grant.recordedMs !== undefined && grant.recordedMs < lookedMs)
      history.beyondA1('D1', scheduler.nowMs, `${recordKey} was told as an orphan, and has an outcome`)
    const until = Math.min(grant.validUntilMs, grant.releaseSentMs ?? Number.POSITIVE_INFINITY)
    if (grant.lease.token === token && grant.ended === undefined && until > scheduler.nowMs)
      history.beyondA1(
        'D2',
        scheduler.nowMs,
        `${recordKey} was told as an orphan, and is held until ${until}`,
      )
  }
}

/**
 * D3: every record that expired without an outcome, and stands so on a majority, has been reported. Where the clock of a
 * node was set back, it shows the lease as running for as long again. A node that gave the claim back, or that went on to
 * a larger token, can't say any more whether that lease is a renewal which it knew, too: the read waits for the end of the
 * lease, so the letter comes late, by at most the step of the clock. Nobody who claims has to wait for it.
 */
export function checkOrphansTold(nodes: readonly SimulatedNode[], history: History, nowMs: number): void {
  const keys = new Set(nodes.flatMap((node) => [...node.keys]))
  for (const key of keys) {
    if (key === LEADERSHIP || history.orphansTold.has(key)) continue
    const claims = nodes.flatMap((node) => {
      const record = node.peek(key)
      return record?.state === 'claimed' ? [{ ...record, nodeMs: node.nodeMs }] : []
    })
    const done = nodes.some((node) => node.peek(key)?.state === 'completed')
    const expiredOnMajority = claims.some(({ fence }) => {
      const same = claims.filter((claim) => claim.fence === fence)
      const runs = same.some((claim) => claim.leaseUntilNodeMs > claim.nodeMs)
      const over = same.filter(
        // Long enough for a sweep to pass.
        (claim) => claim.leaseUntilNodeMs + 4_000 <= claim.nodeMs && !(runs && claim.owner === NO_OWNER),
      )
      return over.length >= majorityOf(nodes.length)
    })
    if (!done && expiredOnMajority)
      history.beyondA1('D3', nowMs, `${key} expired without an outcome and was never told`)
  }
}
