/**
 * The words of the log: which event becomes a line, at which level, with which fields.
 *
 * Fields that mean the same have the same name in every line; docs/reference/telemetry.md lists them, and a test compares.
 */

import { executedBy, keyHashOf, lockIdOf } from '../core/claims/lease.ts'
import type { CoreEvent, Replies } from '../core/events.ts'
import { placeOf } from '../core/node-status.ts'
import { whyNotAsked } from '../core/outcome.ts'
import type { Token } from '../core/record/token.ts'
import { tenantOf } from '../core/request/identity.ts'

type Level = 'error' | 'warn' | 'info' | 'debug'
type Fields = Readonly<Record<string, unknown>>
/** Fields of lines about one record are a function: a line that the level hides makes none. */
type Line = { readonly level: Level; readonly message: string; readonly fields: Fields | (() => Fields) }

function line(level: Level, message: string, fields: Line['fields']): Line {
  return { level, message, fields }
}

type EventOf<K extends CoreEvent['kind']> = Extract<CoreEvent, { kind: K }>

type Lines<Kinds extends CoreEvent['kind']> = {
  readonly [K in Kinds]: (event: EventOf<K>, nodeCount: number) => Line | undefined
}

/** Of an unprotected request that got no answer both are known: the nodes have an alert of their own. */
function errorOf({ because, notAsked }: EventOf<'decided'>): { error?: string } {
  if (because !== undefined) return { error: because }
  return notAsked === undefined ? {} : { error: `no node was asked: ${whyNotAsked(notAsked)}` }
}

/** Nothing else tells of it: the node is connected and votes, and one record of it is damaged or foreign. */
export function isUnusable({ answered, unreachable }: EventOf<'node_answered'>): boolean {
  return answered === true && unreachable === 'error'
}

/** Undefined for events that metrics describe better than a line each. */
export function lineOf<K extends CoreEvent['kind']>(
  event: EventOf<K> & { kind: K },
  nodeCount: number,
): Line | undefined {
  return LINES[event.kind](event, nodeCount)
}

/** Lists every event: a new one is silent by decision, not by oversight. */
const LINES: Lines<CoreEvent['kind']> = {
  decided: (event, nodeCount) =>
    line('info', `${event.decision}: ${event.detail}`, {
      entrypoint: event.entrypoint,
      route: event.route,
      status: event.status,
      duration_ms: rounded(event.durationMs),
      tenant: event.tenant,
      idempotency_key: event.idempotencyKey ?? event.keyHash?.slice(0, 16),
      key_hash: event.keyHash?.slice(0, 16),
      lock_id: event.lockId ?? executedBy(event),
      acquired: event.lockId !== undefined,
      fencing_token: event.token,
      attempt: event.attempt,
      ...remaining(event.leaseRemainingMs),
      ...reached(event.answered, nodeCount),
      ...errorOf(event),
      instance: event.instance,
    }),
  // One for each request; `fencepost observe report` sums them up.
  observed: () => undefined,
  near_miss: () => undefined,
  node_answered: (event) => {
    if (event.answer !== 'unreachable') return undefined
    const unusable = isUnusable(event)
    return line(
      unusable ? 'warn' : 'debug',
      unusable
        ? `${event.node} answered ${event.command} with what can't be used`
        : `${event.node} gave no answer to ${event.command}`,
      { node: event.node, error: event.detail, duration_ms: rounded(event.durationMs) },
    )
  },
  claim_expired: (event, nodeCount) =>
    line('warn', 'a claim took longer than its lease and was given back', () => ({
      ...claimFields(event, nodeCount),
      elapsed_ms: rounded(event.elapsedMs),
    })),
  conflict_repaired: (event, nodeCount) =>
    line('error', 'two outcomes of one identity were seen; the one with the larger token is kept', () => ({
      ...holderFields(event, nodeCount),
      tokens: event.tokens,
    })),
  outcome_damaged: (event, nodeCount) =>
    line('error', 'a stored outcome is damaged and was not used', () => ({
      ...record(event.recordKey),
      ...(event.node === undefined ? {} : { node: event.node }),
      attempt: event.attempt,
      ...reached(event.answered, nodeCount),
      error: event.reason,
    })),
  outcome_adopted: (event, nodeCount) =>
    line('warn', 'an outcome that only a minority held was written to a majority', () => ({
      ...holderFields(event, nodeCount),
      fencing_token: event.token,
    })),
  takeover: (event, nodeCount) =>
    line('warn', 'an earlier holder ended without an outcome; this attempt takes over', () =>
      claimFields(event, nodeCount),
    ),
  operator_decided: ({ recordKey, decision, by, result }) =>
    line('warn', `an operator decided about a record: ${decision} (${result})`, () => ({
      ...record(recordKey),
      decided_by: by,
    })),
  lease_ended: (event) => {
    if (event.ended === 'completed' || event.ended === 'released') return undefined
    return line('warn', `a lease ended without a recorded outcome (${event.ended})`, () => ({
      ...claimFields(event),
      held_ms: rounded(event.heldMs),
    }))
  },
  lease_renewed: ({ recordKey, result, durationMs, failed }, nodeCount) => {
    if (result === 'renewed') return undefined
    return line('warn', `a lease was not renewed (${result})`, () => ({
      ...(failed === undefined
        ? record(recordKey)
        : { ...claimFields({ recordKey, ...failed }, nodeCount), error: sentenceOf(failed.replies) }),
      renewal_failed: true,
      duration_ms: rounded(durationMs),
    }))
  },
  completed: (event, nodeCount) => {
    if (event.result === 'recorded') return undefined
    return line('error', `an outcome was not recorded (${event.result})`, () => ({
      ...claimFields(event, nodeCount),
      attempts: event.attempts,
    }))
  },
  quorum_breaker_changed: (event, nodeCount) => {
    if (isATry(event.from, event.to)) return undefined
    const { group, from, to, answered } = event
    const quorum = `the quorum${group === undefined ? '' : ` of group ${group}`}`
    return line(
      to === 'open' ? 'error' : 'warn',
      `${quorum} is ${to === 'open' ? 'lost: claims are answered without asking the nodes, but for one now and then' : 'back'}`,
      { ...(group === undefined ? {} : { group }), from, to, ...reached(answered, nodeCount) },
    )
  },
  written_back: (event) =>
    line(
      event.result === 'recorded' ? 'info' : 'error',
      `a completion of the time without a quorum: ${event.result}`,
      () => ({ ...claimFields(event), pending: event.pending }),
    ),
  // Each request that is refused has its own line, and a flood of them must not be a flood of these.
  body_memory_full: () => undefined,
  connections_refused: ({ refused, limit }) =>
    line(
      'warn',
      `within a second ${refused} connections of clients were closed at once: their listener has ${limit}, which is limits.connections`,
      { refused, limit },
    ),
  settled_late: (event, nodeCount) =>
    line(
      event.result === 'recorded' ? 'info' : 'error',
      `an outcome whose client was answered before it was recorded: ${event.result}`,
      () => ({ ...claimFields(event, nodeCount), attempts: event.attempts }),
    ),
  synthetic_claim: (event) => {
    if (event.result === 'ok' || event.result === 'error') return undefined
    return line(
      'error',
      event.result === 'false_negative'
        ? 'a synthetic claim was granted twice: a duplicate would have been carried out'
        : 'a synthetic claim was refused although nobody holds its key',
      { error: event.result, duration_ms: rounded(event.durationMs) },
    )
  },
  clock_stepped: (event) =>
    line(
      'error',
      `the clock of ${event.node} was stepped; its votes do not count until the longest lease is over`,
      { node: event.node, step_ms: rounded(event.stepMs), suspended_ms: event.suspendedMs },
    ),
  clock_offset: (event) =>
    line(
      event.skewed ? 'warn' : 'info',
      `the clock of ${event.node} is ${event.skewed ? 'further off ours than tolerated' : 'near ours again'}`,
      {
        node: event.node,
        offset_ms: rounded(event.offsetMs),
        uncertainty_ms: rounded(event.uncertaintyMs),
      },
    ),
  breaker_changed: (event) => {
    if (isATry(event.from, event.to)) return undefined
    return line(
      event.to === 'open' ? 'warn' : 'info',
      `${event.node} ${event.to === 'open' ? 'is not responding; its circuit breaker is open' : 'responds again'}`,
      { node: event.node, from: event.from, to: event.to },
    )
  },
  node_state: (event) =>
    line(
      event.to === 'voting' ? 'info' : 'warn',
      `${placeOf({ name: event.node, address: event.address })} is ${event.to}${event.from === event.to ? '' : `, was ${event.from}`}: ${event.reason}`,
      { node: event.node, address: event.address, from: event.from, to: event.to },
    ),
  node_memory: (event) =>
    line(
      event.full ? 'error' : 'info',
      event.full
        ? `${event.node} is full: it is sent no new claims`
        : `${event.node} has room again: it is sent new claims`,
      { node: event.node, used_bytes: event.usedBytes, limit_bytes: event.limitBytes },
    ),
  node_writes: ({ node, refusal }) =>
    line(
      refusal === undefined ? 'info' : 'error',
      refusal === undefined
        ? `${node} takes writes again`
        : `${node} refuses every write, so no request can count on it: ${refusal}`,
      { node, ...(refusal === undefined ? {} : { refusal }) },
    ),
  slow_command: ({ node, command, durationMs, atWallMs }) =>
    line('warn', `${command} blocked ${node} for ${rounded(durationMs)} ms`, {
      node,
      command,
      duration_ms: rounded(durationMs),
      began: new Date(atWallMs).toISOString(),
    }),
  cluster_founded: (event) =>
    line('warn', 'a brand-new cluster was founded: its nodes remembered nothing', { nodes: event.nodes }),
  cluster_replaced: (event) =>
    line(
      'error',
      `the nodes were founded anew beside this sidecar: ${event.node} belongs to the cluster ${event.found}, and this sidecar has worked with ${event.known}. It accepts none of them, because what ${event.known} remembered is forgotten there and would be carried out again. See docs/operations/nodes.md, "Founded anew beside a running sidecar".`,
      { node: event.node, known_cluster: event.known, found_cluster: event.found },
    ),
  rejoin_progress: (event) =>
    line('info', `records are copied to ${event.node}`, {
      node: event.node,
      sources_done: event.sourcesDone,
      copied: event.copied,
    }),
  rejoin_blocked: (event) =>
    line(
      'error',
      `${event.node} can't rejoin: ${event.voting} other nodes vote, ${event.required} must. \`fencepost nodes status\` says what ends that.`,
      { node: event.node, voting: event.voting, required: event.required },
    ),
  rejoin_step_failed: (event) =>
    line('warn', `a rejoin step failed on ${event.node}; retrying`, {
      node: event.node,
      error: event.reason,
    }),
  entries_untaken: ({ of, entries, why }) =>
    line(
      'warn',
      `${entries === 1 ? 'an entry' : `${entries} entries`} of the ${UNTAKEN[of]} found no majority of the nodes: ${why}`,
      { of, entries },
    ),
  loss_declared: (event) =>
    line(
      'error',
      `${event.by} declared the data of ${event.node} lost: earlier requests may be executed again`,
      { node: event.node, declared_by: event.by },
    ),
  node_joined: (event) =>
    line('info', `${event.node} joined and votes again`, { node: event.node, copied: event.copied }),
  round_settled: () => undefined,
  claim_ended: () => undefined,
  outcome_offered: () => undefined,
  lease_began: () => undefined,
  lease_released: () => undefined,
  application_worked: () => undefined,
}

/** What finds the record of `dedup:{tenant}:{env}:{version}:{hash}`: a part of the hash, and the tenant. */
function record(recordKey: string) {
  const digits = keyHashOf(recordKey)
  // By both names: decisions may have the client's own key as the first.
  return { idempotency_key: digits, key_hash: digits, tenant: tenantOf(recordKey) }
}

/** Of one claim; undefined fields are not written. */
type Claim = {
  readonly recordKey: string
  readonly token: Token
  readonly attempt: number
  readonly answered?: number
  readonly remainingMs?: number
}

function claimFields({ recordKey, token, attempt, answered, remainingMs }: Claim, nodeCount = 0) {
  return {
    ...record(recordKey),
    lock_id: lockIdOf({ key: recordKey, token }),
    fencing_token: token,
    attempt,
    ...reached(answered, nodeCount),
    ...remaining(remainingMs),
  }
}

/** Of the claim that made an outcome, where another claimant found it. */
function holderFields(
  { recordKey, holder, attempt, answered }: EventOf<'conflict_repaired' | 'outcome_adopted'>,
  nodeCount: number,
) {
  return {
    ...record(recordKey),
    lock_id: lockIdOf({ key: recordKey, token: holder }),
    attempt,
    ...reached(answered, nodeCount),
  }
}

/** Nodes whose answer counted. */
export function reached(answered: number | undefined, nodeCount: number) {
  return answered === undefined
    ? undefined
    : { quorum_nodes: `${answered}/${nodeCount}`, nodes_reached: answered }
}

function remaining(leaseMs: number | undefined) {
  return leaseMs === undefined ? undefined : { lease_remaining_ms: rounded(leaseMs) }
}

/** `2 renewed, 3 timeout` */
function sentenceOf(replies: Replies): string {
  return Object.entries(replies)
    .map(([word, count]) => `${count} ${word}`)
    .join(', ')
}

const UNTAKEN = { 'dead-letters': 'dead letters', audit: 'audit log', queue: 'wait queues' } as const

/** What is away is tried once more, every second or two, and still does not answer: no news. */
const isATry = (from: string, to: string) => to === 'half_open' || (from === 'half_open' && to === 'open')

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}
