/**
 * The nodes of one cluster as those who look after them see them: what they were given, and what they may ask of them.
 *
 * Owns the options and the port. Who implements it is `nodes.ts`; who works through it are `enroller.ts` (votes that are to
 * come back) and `continuity.ts` (what a node that was started again still remembers).
 */

import type { Clock, Random } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import type { Cluster } from '../core/nodes/enrolment-rules.ts'
import type { RedisAddress } from './connect.ts'
import type { RedisEnrolmentNode } from './enrolment.ts'
import type { NodeFacts } from './inspection.ts'
import type { Member } from './member.ts'

export type RedisNodesOptions = {
  readonly addresses: readonly RedisAddress[]
  /** What all sidecars call these nodes, in the same order; absent: which nodes others have is not looked at. */
  readonly names?: readonly string[]
  readonly deadlineMs: number
  readonly connectTimeoutMs: number
  readonly maxTokenAheadMs: number
  /** How long a node that forgot must not vote, as this sidecar's longest lease demands; the cluster's longest counts. */
  readonly quarantineMs: number
  readonly answerMaxAgeMs: number
  /** How far a node's clock may be stepped before its quarantine begins anew. */
  readonly clockStepMs: number
  /** Share of a node's `maxmemory` beyond which it is sent no new claims. Default: all of it. */
  readonly claimsMemoryShare?: number
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  /** Only look: found and enrol nothing. */
  readonly watchOnly?: boolean
  /** Of several groups: stands before the names of its nodes. */
  readonly group?: string
  /** Whether a brand-new cluster may be founded now. Default: yes. */
  readonly mayFound?: () => boolean
  /** How long nobody may have objected before a brand-new cluster is founded. Default: as `core/nodes/founding.ts` says. */
  readonly foundingWindowMs?: number
  /** How often each node is looked at. Default: once a second. */
  readonly inspectEveryMs?: number
}

export type ClusterNodes = {
  readonly options: RedisNodesOptions
  readonly members: readonly Member[]
  /** Nothing more is to be begun. */
  readonly closed: boolean
  /** Looks at a node now; where somebody is looking already, once more after that. */
  inspect(member: Member): Promise<void>
  /** The cluster as its voting nodes know it, or else as any node does. */
  cluster(): Cluster
  /** A node as enrolment sees it, on the connection that it has now. */
  enrolmentNode(member: Member, facts: NodeFacts): RedisEnrolmentNode
}
