/**
 * What a Redis node must be to be usable: a master of its own that never forgets by itself.
 *
 * Owns the inspection of one node and the judgement of its fitness. Which program may be one is `server-program.ts`;
 * whether a fit node may vote is `core/nodes/enrolment-rules.ts`.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import {
  type CopyProgress,
  isEnrolled,
  type Lineage,
  type Membership,
  NEVER_A_REPLICA,
  type Quarantine,
} from '../core/nodes/enrolment-rules.ts'
import { markIn, membersDiffer, sameMembers } from '../core/nodes/members.ts'
import { whyNewer } from '../core/nodes/node-format.ts'
import type { EpochShown } from '../core/nodes/node-history.ts'
import type { NodeMemory } from '../core/nodes/node-memory.ts'
import { inTime } from './in-time.ts'
import { callMembership } from './membership.ts'
import { type Life, readDurable, readLife } from './pulse.ts'
import {
  askWhyUnsuitable,
  fieldsOf,
  type InfoField,
  serverOf,
  UnsuitableServer,
  whyUnsuitable,
} from './server-program.ts'

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

export type Fitness = { readonly kind: 'fit' } | { readonly kind: 'unfit'; readonly reason: string }

/**
 * @throws UnsuitableServer
 * @throws Error where the node does not answer, refuses what the ACL of `docs/operations/nodes.md` lists, or lacks the
 *   database of the URL
 */
export async function inspectNode(client: Redis): Promise<NodeFacts> {
  try {
    return await readFacts(client)
  } catch (cause) {
    if (cause instanceof UnsuitableServer) throw cause
    const unsuitable = await askWhyUnsuitable(client)
    throw unsuitable === undefined ? cause : new UnsuitableServer(unsuitable)
  }
}

async function readFacts(client: Redis): Promise<NodeFacts> {
  const { db = 0 } = client.options
  const [field, looked, life, durable] = await inOneWrite(client, () => {
    const info = client.info(...SECTIONS).then(fieldsOf)
    return Promise.all([
      info,
      callMembership(client, '', ['look']),
      readLife(client),
      readDurable(client, info),
      // ioredis selects it as well, but if that is refused it goes on in database 0: another keyspace than the others'.
      db === 0 ? undefined : client.select(db),
    ])
  })
  const unsuitable = whyUnsuitable(field)
  if (unsuitable !== undefined) throw new UnsuitableServer(unsuitable)
  const membership = membershipOf(looked)
  return {
    ...membership,
    format: formatIn(looked),
    refusal: refusalIn(looked),
    ...life,
    durable,
    startedNodeMs: membership.nodeMs - Number(field('uptime_in_seconds')) * 1_000,
    role: field('role'),
    lineage: lineageOf(field),
    evictionPolicy: field('maxmemory_policy'),
    evictedKeys: Number(field('evicted_keys')),
    memory: memoryOf(field),
    ...serverOf(field),
  }
}

/** What a look reads of INFO stands in these. */
const SECTIONS = ['server', 'memory', 'persistence', 'stats', 'replication'] as const

/** What is sent in one turn leaves in one write, and wakes the node once; ioredis writes each command by itself. */
function inOneWrite<T>({ stream }: Redis, send: () => T): T {
  stream?.cork()
  try {
    return send()
  } finally {
    stream?.uncork()
  }
}

/** A server that was a replica shows as its second id which data it had then (`INFO replication`). */
function lineageOf(field: InfoField): Lineage {
  return /[^0]/.test(field('master_replid2')) ? field('master_replid') : NEVER_A_REPLICA
}

export function memoryOf(field: InfoField): NodeMemory {
  return {
    // Redis leaves the buffers of replicas and of the append-only file out of the limit.
    usedBytes: Math.max(0, Number(field('used_memory')) - Number(field('mem_not_counted_for_evict'))),
    limitBytes: Number(field('maxmemory')),
  }
}

/** For an operator's command: a suspended node must not hold it up. */
const COMMAND_DEADLINE_MS = 2_000

/** What a node reports to a command; undefined without an answer in time. */
export function inspectForCommand(client: Redis, clock: Clock): Promise<NodeFacts | undefined> {
  return forCommand(clock, inspectNode(client)).catch(() => undefined)
}

export function forCommand<T>(clock: Clock, answer: Promise<T>): Promise<T> {
  return inTime(clock, COMMAND_DEADLINE_MS, answer, `no answer within ${COMMAND_DEADLINE_MS} ms`)
}

/** Whether it has evicted what it promised to remember: then its epoch must not outlive the policy. */
export function hasEvicted({ evictionPolicy, evictedKeys }: NodeFacts): boolean {
  return evictionPolicy !== 'noeviction' && evictedKeys > 0
}

/** Whether a node is usable at all. */
export function fitnessOf(facts: NodeFacts): Fitness {
  const unfit = (reason: string): Fitness => ({ kind: 'unfit', reason })
  const hidden = [
    ...(facts.role === '' ? ['role'] : []),
    ...(facts.evictionPolicy === '' ? ['maxmemory_policy'] : []),
  ]
  if (hidden.length > 0)
    return unfit(
      `INFO shows no ${hidden.join(' and no ')}, so it may be a replica or forget records: use a server that shows them`,
    )
  if (facts.role !== 'master')
    return unfit(
      `its role is ${facts.role}, and a replica loses what was not copied yet: use an independent master`,
    )
  if (facts.evictionPolicy !== 'noeviction') {
    return unfit(
      `its maxmemory-policy is ${facts.evictionPolicy}, which silently forgets records: set noeviction`,
    )
  }
  return { kind: 'fit' }
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
): string | undefined {
  const newer = whyNewer(facts)
  if (newer !== undefined) return newer
  const twin = others.find((other) => other.facts.runId === facts.runId)
  if (twin !== undefined)
    return `it is the same server as ${twin.name} (run_id ${facts.runId}): each node must be a process of its own`
  const members = facts.cluster?.members
  if (names !== undefined && members !== undefined && !sameMembers(members, names))
    return membersDiffer(members, names)
  if (names !== undefined && name !== undefined && isMisnamed(facts, name, names))
    return `it is the node ${facts.pulse?.name} of this list to sidecars that have used it, and ${name} here: give FENCEPOST_REDIS_NODE_NAMES in the order of FENCEPOST_REDIS_NODES, or set the addresses right. Where the server is to have this name from now on, restart it: it is enrolled under it then`
  // With a single group the first sidecar writes the list; here others may place identities without these.
  if (names !== undefined && members === undefined && markIn(names) !== undefined && isEnrolled(facts))
    return `it does not say among which groups its cluster places identities, and this configuration has ${markIn(names)?.groups.join(', ')}: see \`fencepost nodes change-groups\``
  const known = others.find(({ voting, facts: its }) => voting && its.cluster !== undefined)
  const theirs = known?.facts.cluster?.id
  const own = facts.cluster?.id
  if (isEnrolled(facts) && own !== clusterId && theirs !== undefined && own !== undefined && own !== theirs)
    return `it belongs to the cluster ${own}, and ${known?.name} to ${theirs}: a node votes in one cluster only`
  return undefined
}

function membershipOf(looked: unknown): Membership {
  if (!Array.isArray(looked) || typeof looked[0] !== 'string')
    throw new Error('the node does not show its run_id in INFO: allow the command, or use another server')
  const [runId, nodeMs, epoch, flat, id, quarantineMs, members] = looked
  const named = typeof members === 'string' && members !== '' ? { members: members.split(',') } : {}
  return {
    runId,
    nodeMs: Number(nodeMs),
    epoch: typeof epoch === 'string' ? epoch : undefined,
    quarantine: quarantineOf(flat),
    cluster: typeof id === 'string' ? { id, quarantineMs: Number(quarantineMs), ...named } : undefined,
  }
}

function formatIn(looked: unknown): string | undefined {
  const format = Array.isArray(looked) ? looked[7] : undefined
  return typeof format === 'string' ? format : undefined
}

function refusalIn(looked: unknown): string | undefined {
  const write = Array.isArray(looked) ? looked[8] : undefined
  return typeof write === 'string' ? write : undefined
}

function quarantineOf(flat: unknown): Quarantine | undefined {
  if (!Array.isArray(flat) || flat.length === 0) return undefined
  const field = new Map<string, string>()
  for (let at = 0; at + 1 < flat.length; at += 2) field.set(String(flat[at]), String(flat[at + 1]))
  const source = field.get('source') ?? ''
  const [declaredBy, lineage, evicted, told] = ['declared_by', 'lineage', 'evicted', 'told'].map((name) =>
    field.get(name),
  )
  const progress: CopyProgress = {
    done: (field.get('done') ?? '').split(',').filter((runId) => runId !== ''),
    copied: Number(field.get('copied') ?? 0),
    ...(source === '' ? {} : { source: { runId: source, cursor: field.get('cursor') ?? '0' } }),
  }
  return {
    runId: field.get('run_id') ?? '',
    nonce: field.get('nonce') ?? '',
    sinceNodeMs: Number(field.get('since')),
    origin: field.get('origin') === 'new' ? 'new' : 'forgot',
    ...(declaredBy === undefined ? {} : { declaredBy }),
    ...(lineage === undefined ? {} : { lineage }),
    ...(evicted === undefined ? {} : { evictedKeys: Number(evicted) }),
    ...(told === undefined ? {} : { told: Number(told) }),
    ...(field.get('rival') === '1' ? { rival: true } : {}),
    progress,
  }
}
