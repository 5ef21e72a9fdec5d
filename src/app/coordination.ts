/**
 * What sidecars do together: one elected sidecar sweeps; all of them append to the audit log, and write their names to the nodes.
 *
 * Embedded nodes have none of it, because their records end with their process.
 */

import type { Config } from '../config/load.ts'
import { createNodeCollector } from '../coordination/node-collector.ts'
import { createSweeper, paused } from '../coordination/sweeper.ts'
import type { Clock, Random } from '../core/clock.ts'
import {
  type AuditLog,
  answeredDeadLetterOf,
  auditEntryOf,
  type Untaken,
} from '../core/coordination/audit-log.ts'
import { campaign } from '../core/coordination/election.ts'
import { type CoreEvent, type Events, SILENT } from '../core/events.ts'
import { sidecarMarkOf } from '../core/operator/record-view.ts'
import type { Leases } from '../core/ports.ts'
import { isWork } from '../core/request/identity.ts'
import type { Application } from '../http/proxy/application.ts'
import { SWEEPER_LEADERSHIP } from '../redis/keys.ts'
import { readNodeStats } from '../redis/node-details.ts'
import type { RedisNodes } from '../redis/nodes.ts'
import { expiredClaims } from '../redis/record-scan.ts'
import type { SidecarNames } from '../redis/sidecar-names.ts'
import { askOf, decisionTermsOf } from './settle-question.ts'

export type CoordinationPorts = {
  readonly redis: RedisNodes
  readonly auditLog: AuditLog
  readonly names: SidecarNames
  /** The name of this sidecar. */
  readonly instance: string
  readonly leases: Leases
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  readonly untaken: Untaken
  /** The application that resolves orphans, if the configuration names a path. */
  readonly application: Pick<Application, 'forward'> | undefined
  readonly onFailure: (cause: unknown) => void
}

export type Coordination = NonNullable<ReturnType<typeof openCoordinations>>

/** The ports of one quorum group. Each has its own leader, so that a lost group does not stop sweeping in the others. */
export type CoordinatedGroup = Pick<CoordinationPorts, 'redis' | 'auditLog' | 'names' | 'leases'>

export function openCoordinations(
  config: Config,
  groups: readonly CoordinatedGroup[],
  ports: Omit<CoordinationPorts, keyof CoordinatedGroup>,
) {
  const all = groups.map((group) => openCoordination(config, { ...ports, ...group }))
  if (all.length === 0) return undefined
  return {
    get leading() {
      return all.some(({ leading }) => leading)
    },
    sweeping: () => {
      const sweeps = all.map((one) => one.sweeping())
      const known = sweeps.flatMap(({ orphansOpen }) => orphansOpen ?? [])
      const orphansOpen = known.length === 0 ? undefined : known.reduce((sum, open) => sum + open, 0)
      return {
        leading: sweeps.some(({ leading }) => leading),
        /** Each group has a leader. */
        filled: sweeps.every(({ filled }) => filled),
        orphansOpen,
      }
    },
    /** By name of the node; undefined while another sidecar is elected to collect them. */
    nodeStats: () => {
      const known = all.flatMap((one) => one.nodeStats() ?? [])
      return known.length === 0 ? undefined : new Map(known.flatMap((nodeStats) => [...nodeStats]))
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(all.map((one) => one[Symbol.asyncDispose]()))
    },
  }
}

/** The longest time without a leader after one dies, and a third of it until a follower claims; never above a lease that nodes accept. */
const LEADERSHIP_LEASE_MS = 15_000
/** No request waits for these stats. */
const NODE_STATS_DEADLINE_MS = 1_000

function openCoordination(config: Config, ports: CoordinationPorts) {
  const { redis, clock } = ports
  const sweeper = createSweeper({
    ...ports,
    sources: redis.members.map((_, index) => ({
      expired: async (cursor) => {
        const { found, cursor: next } = await expiredClaims(redis, index, cursor)
        return { found: found.map(({ recordKey, fence: token }) => ({ recordKey, token })), cursor: next }
      },
    })),
    terms: decisionTermsOf(config),
    ask: askOf(config, ports),
  })
  const sources = redis.members.map(({ node, client }) => ({
    name: node.name,
    read: () => readNodeStats(client, NODE_STATS_DEADLINE_MS, clock),
  }))
  const collector = createNodeCollector(sources, config.nodeCollectionIntervalMs, clock, (node, slow) =>
    ports.events.publish({ kind: 'slow_command', node, ...slow }),
  )
  const closed = new AbortController()
  void ports.names.announce(sidecarMarkOf(ports.instance), ports.instance, closed.signal)
  let orphansOpen: number | undefined
  const candidate = campaign({
    ...ports,
    // Not the lease of a request, so events must not count it.
    events: SILENT,
    recordKey: SWEEPER_LEADERSHIP,
    leaseMs: Math.min(LEADERSHIP_LEASE_MS, Math.max(config.leaseMs, config.reservationMaxLeaseMs)),
    lead: async ({ over }) => {
      const ended = new AbortController()
      const collecting = collector.collect(AbortSignal.any([over, ended.signal]))
      try {
        while (!over.aborted) {
          const open = await sweeper.sweepOnce(over)
          if (!over.aborted) orphansOpen = open
          await paused(clock, config.sweepIntervalMs, over)
        }
      } finally {
        orphansOpen = undefined
        ended.abort()
        await collecting
      }
    },
  })
  return {
    get leading() {
      return candidate.leading
    },
    nodeStats: collector.nodeStats,
    sweeping: () => ({ leading: candidate.leading, filled: candidate.filled, orphansOpen }),
    [Symbol.asyncDispose]: () => {
      closed.abort()
      return candidate[Symbol.asyncDispose]()
    },
  }
}

/** Entries waiting to be written; any beyond are dropped and reported as a failure. */
const PENDING_MAX = 100

/** Dead letters that are taken back when their outcome is recorded late; older ones are closed by the sweeper. */
const DEAD_LETTERS_MAX = 1_000

/** A subscriber that appends to the audit log; the log has what can't be written anyway. */
export function appendAudit(auditLog: AuditLog, clock: Clock, untaken: Untaken): (event: CoreEvent) => void {
  let pending = 0
  const wallMs = () => clock.wallMs()
  /** Dead letters that this process wrote, while their claim's own outcome may still come. */
  const deadLetters = new Map<string, Promise<unknown>>()
  function takeBackAnswered(event: CoreEvent): void {
    const answered = answeredDeadLetterOf(event)
    const deadLetter = answered === undefined ? undefined : deadLetters.get(answered)
    if (answered === undefined || deadLetter === undefined) return
    deadLetters.delete(answered)
    void deadLetter.then(() => auditLog.remove('dead-letters', answered))
  }
  return (event) => {
    if (deadLetters.size > 0) takeBackAnswered(event)
    const line = auditEntryOf(event, wallMs)
    if (line === undefined) return
    // No request's work ends with the lease of an entity.
    if (event.kind === 'lease_ended' && !isWork(event.recordKey)) return
    if (pending >= PENDING_MAX) return untaken.lost(line.stream, `${PENDING_MAX} entries wait already`)
    pending += 1
    const appended = auditLog.append(line.stream, line.entry).then((taken) => {
      pending -= 1
      if (taken) untaken.taken(line.stream)
      else untaken.lost(line.stream, line.entry.kind)
    })
    if (line.entry.kind !== 'renewal_failed') return
    deadLetters.set(line.entry.id, appended)
    if (deadLetters.size > DEAD_LETTERS_MAX) deadLetters.delete(deadLetters.keys().next().value as string)
  }
}
