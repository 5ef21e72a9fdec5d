/**
 * The nodes of one cluster for those parts that maintain them: the options, and the calls that they may make.
 *
 * Owns the options and the port. `node-driver.ts` implements it; its users are `enroller.ts` (votes that are to come back) and
 * `node-continuity.ts` (what a restarted node still remembers).
 */

import type { Clock, Random } from '../clock.ts'
import type { Events } from '../events.ts'
import type { Cluster } from './enrolment-rules.ts'
import type { NodeFacts } from './fitness.ts'
import type { Member } from './member.ts'
import type { MemberActs } from './node-link.ts'

export type DriverOptions = {
  /** The names of these nodes on all sidecars, in the same order; absent: they are called by their addresses, and other sidecars' lists are not checked. */
  readonly names?: readonly string[]
  readonly connectTimeoutMs: number
  /** How long a node that forgot must not vote, for this sidecar's longest lease; the cluster's longest counts. */
  readonly quarantineMs: number
  /** How far a node's clock may be stepped before its quarantine begins anew. */
  readonly clockStepMs: number
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  /** Only look: found and enrol no node. */
  readonly watchOnly?: boolean
  /** Of several groups: its own name. */
  readonly group?: string
  /** Whether a brand-new cluster may be founded now. Default: yes. */
  readonly mayFound?: () => boolean
  /** How long a brand-new cluster waits for objections before it is founded. Default: see `founding.ts`. */
  readonly foundingWindowMs?: number
  /** Mean time between looks at a node, where glances are not enough (`glance.ts`). Default: a second. */
  readonly inspectEveryMs?: number
  /** Between two pulses of a node. Default: see `continuity.ts`. */
  readonly pulseEveryMs?: number
  /** No older answer counts. Default: see `answer-age.ts`. */
  readonly answerMaxAgeMs?: number
}

export type ClusterNodes = {
  readonly options: DriverOptions
  readonly members: readonly Member[]
  /** No new work may begin. */
  readonly closed: boolean
  /** Looks at a node now; where a look is under way, once more after that. */
  inspect(member: Member): Promise<void>
  /** The cluster as its voting nodes know it, or else as any node does. */
  cluster(): Cluster
  /** A node as enrolment sees it, on its current connection. */
  enrolmentNode(member: Member, facts: NodeFacts): MemberActs
}
