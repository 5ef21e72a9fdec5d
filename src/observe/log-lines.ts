/**
 * The words of the log: which event becomes a line, at which level, with which fields.
 *
 * Fields that mean the same have the same name in every line; docs/reference/telemetry.md lists them, and a test compares.
 */

import { lockIdOf } from '../core/claims/lease.ts'
import type { CoreEvent } from '../core/events.ts'
import type { Token } from '../core/record/token.ts'

export type Line = {
  readonly level: 'error' | 'warn' | 'info' | 'debug'
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** Undefined for events that metrics describe better than a line each. */
export function lineOf<K extends CoreEvent['kind']>(event: EventOf<K> & { kind: K }): Line | undefined {
  return LINES[event.kind](event)
}

type EventOf<K extends CoreEvent['kind']> = Extract<CoreEvent, { kind: K }>

/** Lists every event: a new one is silent by decision, not by oversight. */
const LINES: { readonly [K in CoreEvent['kind']]: (event: EventOf<K>) => Line | undefined } = {
  decided: (event) => ({
    level: 'info',
    message: `${event.decision}: ${event.detail}`,
    fields: {
      entrypoint: event.entrypoint,
      route: event.route,
      status: event.status,
      duration_ms: rounded(event.durationMs),
      tenant: event.tenant,
      idempotency_key: event.idempotencyKey ?? event.keyHash?.slice(0, 16),
      lock_id: event.lockId,
      acquired: event.lockId !== undefined,
      fencing_token: event.token,
      attempt: event.attempt,
    },
  }),
  node_answered: (event) => {
    if (event.answer !== 'unreachable') return undefined
    return {
      level: 'debug',
      message: `${event.node} gave no answer to ${event.command}`,
      fields: { node: event.node, error: event.detail, duration_ms: rounded(event.durationMs) },
    }
  },
  claim_expired: (event) => ({
    level: 'warn',
    message: 'a claim took longer than its lease and was given back',
    fields: { ...keyHash(event.recordKey), elapsed_ms: rounded(event.elapsedMs) },
  }),
  conflict_repaired: (event) => ({
    level: 'error',
    message: 'two outcomes of one identity were seen; the one with the larger token is kept',
    fields: { ...keyHash(event.recordKey), tokens: event.tokens },
  }),
  outcome_damaged: (event) => ({
    level: 'error',
    message: 'a stored outcome is damaged and was not used',
    fields: { ...keyHash(event.recordKey), error: event.reason },
  }),
  outcome_adopted: (event) => ({
    level: 'warn',
    message: 'an outcome that only a minority held was written to a majority',
    fields: { ...keyHash(event.recordKey), fencing_token: event.token },
  }),
  takeover: (event) => ({
    level: 'warn',
    message: 'an earlier holder ended without an outcome; this attempt takes over',
    fields: { ...keyHash(event.recordKey), fencing_token: event.token, attempt: event.attempt },
  }),
  lease_ended: (event) => {
    if (event.ended === 'completed' || event.ended === 'released') return undefined
    return {
      level: 'warn',
      message: `a lease ended without a recorded outcome (${event.ended})`,
      fields: {
        ...keyHash(event.recordKey),
        ...lock(event),
        held_ms: rounded(event.heldMs),
        lease_remaining_ms: rounded(event.remainingMs),
      },
    }
  },
  lease_renewed: (event) => {
    if (event.result === 'renewed') return undefined
    return {
      level: 'warn',
      message: `a lease was not renewed (${event.result})`,
      fields: { ...keyHash(event.recordKey), renewal_failed: true, duration_ms: rounded(event.durationMs) },
    }
  },
  completed: (event) => {
    if (event.result === 'recorded') return undefined
    return {
      level: 'error',
      message: `an outcome was not recorded (${event.result})`,
      fields: { ...keyHash(event.recordKey), attempts: event.attempts },
    }
  },
  clock_stepped: (event) => ({
    level: 'error',
    message: `the clock of ${event.node} was stepped; its votes do not count until the longest lease is over`,
    fields: { node: event.node, step_ms: rounded(event.stepMs), suspended_ms: event.suspendedMs },
  }),
  clock_offset: (event) => {
    if (!event.changed) return undefined
    return {
      level: event.skewed ? 'warn' : 'info',
      message: `the clock of ${event.node} is ${event.skewed ? 'further off ours than tolerated' : 'near ours again'}`,
      fields: {
        node: event.node,
        offset_ms: rounded(event.offsetMs),
        uncertainty_ms: rounded(event.uncertaintyMs),
      },
    }
  },
  breaker_changed: (event) => {
    if (event.to === 'half_open') return undefined
    return {
      level: event.to === 'open' ? 'warn' : 'info',
      message: `${event.node} ${event.to === 'open' ? 'does not answer and is left alone for a moment' : 'answers again'}`,
      fields: { node: event.node, from: event.from, to: event.to },
    }
  },
  quorum_breaker_changed: (event) => {
    if (event.to === 'half_open') return undefined
    const { group, from, to } = event
    const quorum = `the quorum${group === undefined ? '' : ` of group ${group}`}`
    return {
      level: to === 'open' ? 'error' : 'warn',
      message:
        to === 'open'
          ? `${quorum} is lost: claims are answered without asking the nodes, but for one now and then`
          : `${quorum} is back`,
      fields: { ...(group === undefined ? {} : { group }), from, to },
    }
  },
  written_back: (event) => ({
    level: event.result === 'recorded' ? 'info' : 'error',
    message: `a completion of the time without a quorum: ${event.result}`,
    fields: { ...keyHash(event.recordKey), pending: event.pending },
  }),
  node_state: (event) => ({
    level: event.to === 'voting' ? 'info' : 'warn',
    message: `${event.node} is ${event.to}, was ${event.from}: ${event.reason}`,
    fields: { node: event.node, from: event.from, to: event.to },
  }),
  node_memory: (event) => ({
    level: event.full ? 'error' : 'info',
    message: event.full
      ? `${event.node} is full: it is sent no new claims`
      : `${event.node} has room again: it is sent new claims`,
    fields: { node: event.node, used_bytes: event.usedBytes, limit_bytes: event.limitBytes },
  }),
  cluster_founded: (event) => ({
    level: 'warn',
    message: 'a brand-new cluster was founded: its nodes remembered nothing',
    fields: { nodes: event.nodes },
  }),
  cluster_replaced: (event) => ({
    level: 'error',
    message: `the nodes were founded anew beside this sidecar: ${event.node} belongs to the cluster ${event.found}, and this sidecar has worked with ${event.known}. It accepts none of them, because what ${event.known} remembered is forgotten there and would be carried out again. See docs/operations/nodes.md, "Founded anew beside a running sidecar".`,
    fields: { node: event.node, known_cluster: event.known, found_cluster: event.found },
  }),
  enrolment_progress: (event) => ({
    level: 'info',
    message: `records are copied to ${event.node}`,
    fields: { node: event.node, sources_done: event.sourcesDone, copied: event.copied },
  }),
  enrolment_blocked: (event) => ({
    level: 'error',
    message: `${event.node} can't be enrolled: ${event.voting} other nodes vote, ${event.required} must; too many forgot for the rest to know everything. See \`fencepost nodes declare-loss\`.`,
    fields: { node: event.node, voting: event.voting, required: event.required },
  }),
  enrolment_stumbled: (event) => ({
    level: 'warn',
    message: `a step of the enrolment of ${event.node} failed and is taken again`,
    fields: { node: event.node, error: event.reason },
  }),
  loss_declared: (event) => ({
    level: 'error',
    message: `${event.by} declared the loss of what ${event.node} forgot: requests of before may be carried out again`,
    fields: { node: event.node, declared_by: event.by },
  }),
  node_enrolled: (event) => ({
    level: 'info',
    message: `${event.node} was enrolled and votes again`,
    fields: { node: event.node, copied: event.copied },
  }),
  settled_late: (event) => ({
    level: event.result === 'recorded' ? 'info' : 'error',
    message: `an outcome whose client was answered before it was recorded: ${event.result}`,
    fields: { ...keyHash(event.recordKey), attempts: event.attempts },
  }),
  synthetic_claim: (event) => {
    if (event.result === 'ok' || event.result === 'error') return undefined
    return {
      level: 'error',
      message:
        event.result === 'false_negative'
          ? 'a synthetic claim was granted twice: a duplicate would have been carried out'
          : 'a synthetic claim was refused although nobody holds its key',
      fields: { error: event.result, duration_ms: rounded(event.durationMs) },
    }
  },
  round_settled: () => undefined,
  claim_ended: () => undefined,
  outcome_offered: () => undefined,
  lease_began: () => undefined,
  lease_released: () => undefined,
}

/** The first 16 digits of the hash in `dedup:{tenant}:{env}:{version}:{hash}`: enough to find the record. */
function keyHash(recordKey: string): { idempotency_key: string } {
  return { idempotency_key: recordKey.slice(recordKey.lastIndexOf(':') + 1).slice(0, 16) }
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}

function lock({ recordKey: key, token }: { readonly recordKey: string; readonly token: Token }) {
  return { lock_id: lockIdOf({ key, token }), fencing_token: token }
}
