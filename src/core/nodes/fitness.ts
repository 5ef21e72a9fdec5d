/**
 * What a node must be to be usable: a master of its own that never forgets by itself, of this cluster and of no other.
 *
 * Owns what a look shows of a node, and the judgement of its fitness. Whether a fit node may vote is `enrolment-rules.ts`.
 */

import { type Trouble, troubleOf } from '../node-faults.ts'
import type { Pulse } from './continuity.ts'
import { isEnrolled, type Membership } from './enrolment-rules.ts'
import { markIn, membersDiffer, sameMembers } from './members.ts'
import { whyNewer } from './node-format.ts'
import type { Counters, EpochShown } from './node-history.ts'
import type { NodeMemory } from './node-memory.ts'

/** What a node's data say of its life. Undefined where it has none of it, or does not show it. */
export type Life = { readonly pulse: Pulse | undefined; readonly counters: Counters | undefined }

/** What a node reports of itself. */
export type NodeFacts = Membership &
  EpochShown &
  Life & {
    readonly evictionPolicy: string
    readonly memory: NodeMemory
    readonly program: 'Redis' | 'Valkey'
    readonly version: string
    /** Of what stands there besides records; undefined before a sidecar has written it. */
    readonly format: string | undefined
    /** By the node's clock, to the second. */
    readonly startedNodeMs: number
    /** Each write is on its disk before its answer, as configured now. */
    readonly durable: boolean
    /** Why it refuses every write, in its own words: a full disk, replicas that are missing. Undefined: it takes them. */
    readonly refusal: string | undefined
  }

/** Whether it has evicted what it promised to remember: then its epoch must not outlive the policy. */
export function hasEvicted({ evictionPolicy, evictedKeys }: NodeFacts): boolean {
  return evictionPolicy !== 'noeviction' && evictedKeys > 0
}

/** What makes a node unusable by itself. */
export function unfitnessOf(facts: NodeFacts): Trouble | undefined {
  const hidden = [
    ...(facts.role === '' ? ['role'] : []),
    ...(facts.evictionPolicy === '' ? ['maxmemory_policy'] : []),
  ]
  if (hidden.length > 0) return troubleOf('hidden', hidden.join(' and no '))
  if (facts.role !== 'master') return troubleOf('replica', facts.role)
  return facts.evictionPolicy === 'noeviction' ? undefined : troubleOf('evicts', facts.evictionPolicy)
}

/** Another node as this sidecar knows it. */
export type Other = { readonly name: string; readonly voting: boolean; readonly facts: NodeFacts }

/**
 * Whether the very process that answers is another node of the list to the sidecars that have used it. What nodes note of each
 * other goes by these names: to mix them up looks as if most of the nodes had forgotten.
 */
export function isMisnamed({ pulse, runId }: NodeFacts, name: string, names: readonly string[]): boolean {
  return pulse !== undefined && pulse.runId === runId && pulse.name !== name && names.includes(pulse.name)
}

/**
 * Whether what is written on a node that would do says that it is not one of these nodes.
 *
 * @param names this sidecar's names of its nodes; absent: other sidecars' lists are not checked
 * @param name of this one
 * @param clusterId that of these nodes, where two of them say so
 */
export function whyForeign(
  facts: NodeFacts,
  others: readonly Other[],
  names: readonly string[] | undefined,
  name: string | undefined,
  clusterId: string | undefined,
): Trouble | undefined {
  const newer = whyNewer(facts)
  if (newer !== undefined) return newer
  const twin = others.find((other) => other.facts.runId === facts.runId)
  if (twin !== undefined) return troubleOf('same_server', twin.name, facts.runId)
  const members = facts.cluster?.members
  if (names !== undefined && members !== undefined && !sameMembers(members, names))
    return membersDiffer(members, names)
  if (names !== undefined && name !== undefined && isMisnamed(facts, name, names))
    return troubleOf('other_name', facts.pulse?.name ?? '', name)
  // With a single group the first sidecar writes the list; here others may place identities without these.
  if (names !== undefined && members === undefined && markIn(names) !== undefined && isEnrolled(facts))
    return troubleOf('no_groups', markIn(names)?.groups.join(', ') ?? '')
  const known = others.find(({ voting, facts: its }) => voting && its.cluster !== undefined)
  const theirs = known?.facts.cluster?.id
  const own = facts.cluster?.id
  if (isEnrolled(facts) && own !== clusterId && theirs !== undefined && own !== undefined && own !== theirs)
    return troubleOf('two_clusters', own, known?.name ?? '', theirs)
  return undefined
}
