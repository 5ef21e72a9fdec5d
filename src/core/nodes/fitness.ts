/**
 * What a node must be to be usable: a master of its own that never forgets by itself, of this cluster and of no other.
 *
 * Owns what a poll shows of a node, and the judgement of its fitness. Whether a fit node may vote is `rejoin-rules.ts`.
 */

import { type NodeFault, type Trouble, troubleOf } from '../node-faults.ts'
import { majorityOf } from '../units.ts'
import type { Heartbeat } from './continuity.ts'
import type { Counters, IncarnationShown } from './node-history.ts'
import type { NodeMemory } from './node-stats.ts'
import { hasJoined, type Membership } from './rejoin-rules.ts'

/** What a node's data say of its life. Undefined where it has none of it, or does not show it. */
export type Life = { readonly heartbeat: Heartbeat | undefined; readonly counters: Counters | undefined }

/** What a node reports of itself. */
export type NodeFacts = Membership &
  IncarnationShown &
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

/** Whether it has evicted what it promised to remember: then its incarnation must not outlive the policy. */
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
export function isMisnamed({ heartbeat, runId }: NodeFacts, name: string, names: readonly string[]): boolean {
  return (
    heartbeat !== undefined &&
    heartbeat.runId === runId &&
    heartbeat.name !== name &&
    names.includes(heartbeat.name)
  )
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
    return troubleOf('other_name', facts.heartbeat?.name ?? '', name)
  // With a single group the first sidecar writes the list; here others may place identities without these.
  if (names !== undefined && members === undefined && markIn(names) !== undefined && hasJoined(facts))
    return troubleOf('no_groups', markIn(names)?.groups.join(', ') ?? '')
  const known = others.find(({ voting, facts: its }) => voting && its.cluster !== undefined)
  const theirs = known?.facts.cluster?.id
  const own = facts.cluster?.id
  if (hasJoined(facts) && own !== clusterId && theirs !== undefined && own !== undefined && own !== theirs)
    return troubleOf('two_clusters', own, known?.name ?? '', theirs)
  return undefined
}

/*
 * The version of what sidecars keep on a node besides records. Sidecars of every version read it at once, so a cluster has one, beside
 * the list of its nodes. Who raises it replaces the incarnation in the same call (`membership.lua`): nothing that earlier sidecars send
 * counts from then on, and they refuse the node.
 */

/** What this version writes, and the largest that it works with. `membership.lua` writes the same. */
export const NODE_FORMAT = 1

/** What a node shows of its format. */
export type FormatShown = {
  readonly incarnation: string | undefined
  /** As it stands there; undefined where no sidecar has written one, which counts as 1. */
  readonly format?: string | undefined
}

/** Why this version must not work with the node: a later one has changed what is kept there; undefined where it may. */
export function whyNewer({ incarnation, format }: FormatShown): Trouble | undefined {
  if (format !== undefined && format !== String(NODE_FORMAT))
    return troubleOf('later_format', format, String(NODE_FORMAT))
  const version = incarnation?.split(':', 1)[0]
  if (version !== undefined && version !== INCARNATION_VERSION)
    return troubleOf('later_incarnation', JSON.stringify(version), INCARNATION_VERSION)
  return undefined
}

/** In front of an incarnation (`rejoin-rules.ts`). */
const INCARNATION_VERSION = '1'

/*
 * All sidecars must name the same nodes: two majorities meet because they are taken from one list. The nodes keep it, and a sidecar with
 * another one does not start. With several quorum groups each list names them all (its mark), or one identity could be kept on two.
 */

/** In the one order in which lists are written and compared. */
export function memberList(names: readonly string[]): readonly string[] {
  return [...names].sort()
}

export function sameMembers(one: readonly string[], other: readonly string[]): boolean {
  // Each poll of a node asks, and nearly always both are in the one order.
  if (one.length === other.length && one.every((name, at) => name === other[at])) return true
  const others = memberList(other)
  return one.length === other.length && memberList(one).every((name, at) => name === others[at])
}

/** For the operator who must decide which of the two lists is wrong. */
export function membersDiffer(known: readonly string[], own: readonly string[]): Trouble {
  return troubleOf('other_members', memberList(known).join(', '), memberList(own).join(', '))
}

/**
 * Whether every majority of `to` finds what `from` remembers, once the new nodes have joined.
 *
 * The new nodes adopt what a majority of `to` among those that stay remembers; so that many must stay, and every such
 * majority must hold a node of each majority of `from`.
 *
 * @returns why not; undefined where it is allowed
 */
export function whyNotChange(from: readonly string[], to: readonly string[]): string | undefined {
  const staying = from.filter((name) => to.includes(name)).length
  const needed = majorityOf(to.length)
  if (staying < needed)
    return `${staying} of the ${from.length} nodes stay, and the ${to.length - staying} that come are told what ${needed} of them remember: change fewer at once`
  const leaving = from.length - staying
  // So many of an old majority stay at least; a majority of the new list must not fit beside them.
  const holders = majorityOf(from.length) - leaving
  return staying - holders >= needed
    ? `what a majority of the ${from.length} knows may be known to ${Math.max(0, holders)} of the ${staying} that stay, which ${needed} of them may not include: take away fewer at once`
    : undefined
}

/** Among the names of a group's nodes: no node's name has a space. */
const MARK = /^group (\S+) of (\S+)$/

/** The list of a group's nodes, with its mark where there are several groups. */
export function groupList(
  names: readonly string[],
  group: string,
  groups: readonly string[],
): readonly string[] {
  // The only group needs no mark, and is then the same with or without a name.
  if (groups.length === 1 && groups[0] === group) return names
  return [...names, `group ${group} of ${memberList(groups).join('+')}`]
}

/** The nodes of a list, without its mark. */
export function nodesIn(list: readonly string[]): readonly string[] {
  return list.filter((name) => !MARK.test(name))
}

export type Mark = {
  readonly group: string
  /** Identities are placed among these. */
  readonly groups: readonly string[]
}

/** Which group a list is of, and among which others; undefined where its nodes are the only group. */
export function markIn(list: readonly string[]): Mark | undefined {
  for (const name of list) {
    const [, group, groups] = MARK.exec(name) ?? []
    if (group !== undefined && groups !== undefined) return { group, groups: groups.split('+') }
  }
  return undefined
}

/** Whether both are of one group among the same ones. */
export function sameMark(one: readonly string[], other: readonly string[]): boolean {
  return JSON.stringify(markIn(one)) === JSON.stringify(markIn(other))
}

/* At which row of `node-faults.ts` a node is that answered with an error. Source: the error prefixes of Redis 7 (`server.c`). */

/** By how an error of the server begins. */
const ANSWERS: readonly (readonly [RegExp, NodeFault])[] = [
  [/^NOAUTH\b/, 'no_password'],
  [/^WRONGPASS\b|^ERR invalid password/, 'wrong_password'],
  [/^NOPERM\b/, 'no_permission'],
  [/^RENAMED\b/, 'no_command'],
  [/DB index is out of range/, 'no_database'],
  [/^DENIED\b/, 'protected_mode'],
  [/max number of clients/, 'max_clients'],
  [/^(LOADING|MASTERDOWN)\b/, 'loading'],
  [/^BUSY\b/, 'busy'],
  [/^WRONGTYPE\b/, 'wrong_type'],
  [/^READONLY\b/, 'replica'],
  [/^MISCONF\b/, 'cannot_save'],
  [/^NOREPLICAS\b/, 'few_replicas'],
]

/** What a node answered in place of what it was asked for. */
export function answerFault(cause: unknown, other: NodeFault = 'error'): Trouble {
  if (!(cause instanceof Error)) return troubleOf(other, String(cause))
  // Where the answer came before the question, the client library wraps it.
  const message = /Last reply: (?:\w*Error: )?(.*)/s.exec(cause.message)?.[1] ?? cause.message
  if (/RESP type|Protocol error/.test(message)) return troubleOf('not_redis')
  // Words of the client library, which gave the command up.
  if (/enableOfflineQueue|Connection is closed|Command aborted/.test(message)) return troubleOf('lost')
  if (message.startsWith('no answer')) return troubleOf('silent')
  const fault = ANSWERS.find(([begins]) => begins.test(message))?.[1] ?? other
  return fault === 'replica' ? troubleOf(fault, 'slave') : troubleOf(fault, firstSentence(message))
}

function firstSentence(message: string): string {
  return (
    message
      .split(/\.?\r?\n|\.\s|\.$| script: /, 1)[0]
      ?.replace(/^RENAMED /, '')
      .trim() ?? ''
  )
}
