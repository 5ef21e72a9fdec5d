/**
 * The inspection of one Redis node. Which program may be one is `server-program.ts`, and whether it is fit `core/nodes/fitness.ts`.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import {
  type CopyProgress,
  type Lineage,
  type Membership,
  NEVER_A_REPLICA,
  type Quarantine,
} from '../core/nodes/enrolment-rules.ts'
import type { NodeFacts } from '../core/nodes/fitness.ts'
import { UnsuitableServer } from '../core/nodes/member.ts'
import type { NodeMemory } from '../core/nodes/node-stats.ts'
import { inTime } from './in-time.ts'
import { callMembership } from './membership.ts'
import { readDurable, readLife } from './pulse.ts'
import { askWhyUnsuitable, fieldsOf, type InfoField, serverOf, whyUnsuitable } from './server-program.ts'

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
