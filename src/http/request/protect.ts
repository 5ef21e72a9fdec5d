/**
 * A protected request: read it in full, identify it, and let `deduplicate` decide.
 *
 * Owns the order of these steps. The caller provides how the request is read and how the application is reached: the proxy has
 * connections of its own, and for ext_proc Envoy has them. Once the request is complete, the fate of its client's connection does
 * not matter: the client gets a lost answer by sending the request again.
 */

import type { FairQueue } from '../../core/claims/fair-queue.ts'
import { createWaiters, type Waiters } from '../../core/claims/waiters.ts'
import { deduplicate } from '../../core/deduplicate.ts'
import { type ClaimDiagnostics, foundWithoutMajority, type Outcome } from '../../core/outcome.ts'
import type { ForwardContext, ForwardResult } from '../../core/ports.ts'
import type { DedupPolicy, DedupPorts } from '../../core/protected-request.ts'
import type { NearMisses } from '../../core/request/near-misses.ts'
import type { TenantQuotas } from '../../core/request/tenant-quotas.ts'
import type { PathParameters } from '../../core/routes/path-pattern.ts'
import { type ProtectedRoute, termsOf } from '../../core/routes/route.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import type { Claimed } from '../message/headers.ts'
import { type Problem, quotaProblem } from '../message/problems.ts'
import type { Body } from '../server/inbound.ts'
import type { AdmittedRequest } from './admission.ts'
import { type Identified, identify, type ScopeRules, scopeOf } from './identify.ts'
import { answerFor } from './outcome-answers.ts'

export type ProtectPorts = Omit<DedupPorts, 'waiters' | 'fairQueue'> & {
  readonly fairQueue: FairQueue
  readonly waitersOf: (route: ProtectedRoute) => Waiters
  readonly quotas: TenantQuotas
  readonly newInstance: () => string
  readonly nearMisses?: NearMisses
}

export type ProtectOptions = {
  readonly scope: ScopeRules
  readonly settleBudgetMs: number
  readonly renewFraction: number
}

export type ProtectedCall = {
  readonly request: AdmittedRequest
  readonly route: ProtectedRoute
  readonly params: PathParameters
  /** The application's time limit; undefined if a gateway sets it. */
  readonly answerWithinMs: number | undefined
  /** The whole body, if it is not longer than this. */
  readonly readBody: (limitBytes: number) => Promise<Body>
  /** Aborts when no client waits for the answer any more. */
  readonly abandoned: AbortSignal
  /** Sends the request to the application: with its claim, or without one where it is unprotected. Never rejects. */
  readonly forward: (body: Buffer, claimed: Claimed | undefined) => Promise<ForwardResult>
}

/** The identity of a request, for events: of one that was refused at a limit, whose limit it was. */
export type About = {
  readonly tenant: string
  readonly recordKey?: string
  readonly clientKey?: string | undefined
  readonly found?: ClaimDiagnostics | undefined
}

export type Protected =
  | {
      readonly kind: 'answer'
      readonly answer: Answer
      /** The answer is the application's own, of this execution. */
      readonly passesOn: boolean
      readonly about?: About
    }
  /** The client disconnected before its request was complete. */
  | { readonly kind: 'gone' }
  /** No key, and the route does not require one: it is forwarded unprotected, with the body that was read, or `begun` to be. */
  | { readonly kind: 'unkeyed'; readonly body: Buffer; readonly begun?: boolean }

export async function protect(
  call: ProtectedCall,
  options: ProtectOptions,
  ports: ProtectPorts,
): Promise<Protected> {
  const { request, route, params } = call
  const instance = ports.newInstance
  const refuse = (of: Problem): Protected => ({
    kind: 'answer',
    answer: problemAnswer(of, { instance }),
    passesOn: false,
  })
  const scope = scopeOf(request, options.scope)
  if ('code' in scope) return refuse(scope)
  // Before the body is read: a slow tenant occupies its own quota.
  const { tenant } = scope
  const slot = ports.quotas.enter(tenant)
  if (slot.kind === 'reached') {
    const answer = problemAnswer(quotaProblem(slot), { instance })
    return { kind: 'answer', answer, passesOn: false, about: { tenant } }
  }
  // Not `using`: for the oldest Node that is compiled to code that costs each request a microsecond.
  try {
    const body = await call.readBody(route.bodyLimitBytes)
    if (body.kind !== 'whole') slot.notNew()
    if (body.kind === 'gone') return body
    if (isNoCommand(route, body)) return { kind: 'unkeyed', body: body.begun, begun: true }
    if (body.kind === 'refused') return refuse(body.problem)

    const identified = await identify({ request, body: body.bytes, route, params }, scope, options.scope)
    if (identified.kind !== 'identified') slot.notNew()
    switch (identified.kind) {
      case 'unkeyed':
        return { kind: 'unkeyed', body: body.bytes }
      case 'refused': {
        const context = { idempotencyKey: identified.clientKey, instance }
        return { kind: 'answer', answer: problemAnswer(identified.problem, context), passesOn: false }
      }
      case 'identified': {
        const context = { idempotencyKey: identified.clientKey, recordKey: identified.recordKey, instance }
        const outcome = await once(call, identified, body.bytes, options, ports)
        if (!madeNewRecord(outcome)) slot.notNew()
        if ('execution' in outcome) executed(route, identified, ports)
        const { recordKey, clientKey } = identified
        const about = { recordKey, tenant, clientKey, found: diagnosticsOf(outcome) }
        const answer = answerFor(outcome, context, call.answerWithinMs)
        return { kind: 'answer', answer, passesOn: 'response' in outcome, about }
      }
    }
  } finally {
    slot[Symbol.dispose]()
  }
}

/** A route of commands takes nothing that is too large to be read whole. */
export function isNoCommand(
  { match }: ProtectedRoute,
  body: Body,
): body is Body & { readonly begun: Buffer } {
  return match.body === 'command' && body.kind === 'refused' && body.begun !== undefined
}

/** Where its content is its key, it may be a try of the one before, and only its headers made two of them. */
export function executed(
  route: ProtectedRoute,
  { counted }: Identified,
  { nearMisses, clock, events }: Pick<ProtectPorts, 'nearMisses' | 'clock' | 'events'>,
): void {
  if (counted === undefined) return
  const names = nearMisses?.executed(route, counted(), clock.monoMs())
  if (names !== undefined) events.publish({ kind: 'near_miss', route: route.name, names })
}

/** What its event says of the claim of a request that was not executed. */
function diagnosticsOf(outcome: Outcome): ClaimDiagnostics | undefined {
  if (outcome.kind === 'unavailable') return foundWithoutMajority(outcome)
  return 'found' in outcome ? outcome.found : undefined
}

/** Whether the request made a new record, rather than finding one of an earlier request. */
function madeNewRecord(outcome: Outcome): boolean {
  switch (outcome.kind) {
    case 'created':
    case 'released':
    case 'unstored':
    case 'unprotected':
    case 'unprotected_no_answer':
    case 'never_sent':
    case 'indeterminate':
      return true
    case 'replayed':
    case 'gone':
    case 'mismatch':
    case 'duplicate_content':
    case 'in_progress':
    case 'entity_busy':
    case 'undecided':
    case 'too_many_waiters':
    case 'unavailable':
    case 'damaged':
      return false
  }
}

async function once(
  call: ProtectedCall,
  identified: Identified,
  body: Buffer,
  options: ProtectOptions,
  ports: ProtectPorts,
) {
  const { route } = call
  let result: ForwardResult | undefined
  const forward = async (context: ForwardContext | undefined): Promise<ForwardResult> => {
    // Without a claim the request is unprotected; the application then has the key alone to detect duplicates.
    const claimed = context && { ...context, ...identified.keys }
    const sentMonoMs = ports.clock.monoMs()
    result = await call.forward(body, claimed)
    if (claimed !== undefined && result.kind !== 'never_sent')
      ports.events.publish({
        kind: 'application_worked',
        route: route.name,
        durationMs: ports.clock.monoMs() - sentMonoMs,
      })
    return result
  }
  const { recordKey, fingerprint, contentRecord, entityKeys } = identified
  const policy = policyOf(route, options)
  const { leases, localLeases, whenEnded, background, clock, random, events } = ports
  const outcome = await deduplicate(
    {
      recordKey,
      fingerprint,
      policy,
      forward,
      abandoned: call.abandoned,
      contentRecord,
      entities: entityKeys.length === 0 ? undefined : { recordKeys: entityKeys, waitMs: route.entityWaitMs },
    },
    {
      leases,
      localLeases,
      whenEnded,
      waiters: ports.waitersOf(route),
      fairQueue: route.onContention === 'coordinate' ? ports.fairQueue : undefined,
      background,
      clock,
      random,
      events,
    },
  )
  if (!('response' in outcome) && result?.kind === 'answered') void drain(result.response.oversized?.stream)
  return outcome
}

export function policyOf(route: ProtectedRoute, options: ProtectOptions): DedupPolicy {
  return {
    leaseMs: route.leaseMs,
    retentionMs: route.retentionMs,
    budgetMs: route.budgetMs,
    terms: termsOf(route),
    settleBudgetMs: options.settleBudgetMs,
    renewFraction: options.renewFraction,
    totalHoldMs: route.totalHoldMs,
    waitMs: route.onContention === 'conflict' ? 0 : route.wait.maxMs,
    takeover: route.takeover,
    onQuorumLoss: route.onQuorumLoss,
    store: route.store,
    storedHeaders: route.storedHeaders,
    omittedHeaders: route.omittedHeaders,
    bodyStorage: route.bodyStorage,
    redact: route.redact,
  }
}

export function waitersByRoute(): (route: ProtectedRoute) => Waiters {
  const known = new Map<ProtectedRoute, Waiters>()
  return (route) => {
    const waiters = known.get(route) ?? createWaiters(route.wait.maxWaiters, route.wait.maxWaiters)
    known.set(route, waiters)
    return waiters
  }
}

/** The application's answer, replaced by a later holder's outcome, still occupies a connection until it is read. */
async function drain(stream: AsyncIterable<Buffer> | undefined): Promise<void> {
  if (stream === undefined) return
  try {
    for await (const _ of stream);
  } catch {
    // The application cut it; no client was reading.
  }
}
