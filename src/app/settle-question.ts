/**
 * Asks the application what became of an attempt that ended without an outcome (FENCEPOST_SETTLE_PATH), and reads its
 * reply.
 *
 * Owns what of an answer in the reply is stored. A record does not name its route, so only what every route would store
 * is kept. A reply that contradicts itself or can't be read counts as `unknown`, because the program that wrote it may
 * be wrong about the rest, too: the question stays a dead letter, and is asked again. An answer that is well formed and
 * can't be kept becomes a tombstone, because to leave the question open would let a retry be executed.
 */

import type { Config } from '../config/load.ts'
import { lockIdOf } from '../core/claims/lease.ts'
import type { Clock } from '../core/clock.ts'
import type { DecisionTerms, Orphan, SettleReply } from '../core/coordination/settle-orphan.ts'
import type { ApplicationResponse } from '../core/ports.ts'
import type { StoredOutcome } from '../core/record/stored-outcome.ts'
import { policiesOf, protects } from '../core/routes/route.ts'
import { dispositionOf, type StoringPolicy, storedOutcomeOf } from '../core/routes/settlement.ts'
import { type ReportedAnswer, reportedAnswerIn } from '../http/message/reported-answer.ts'
import type { Application } from '../http/proxy/application.ts'
import { jsonBytesMax } from './listener-limits.ts'

/** Time limit for the application's reply about an orphan; the next round sends the question again. */
const REPLY_WITHIN_MS = 5_000

type SettlePorts = {
  /** Undefined where the proxy is off. */
  readonly application: Pick<Application, 'forward'> | undefined
  readonly clock: Clock
  /** Gets what is wrong with a reply, without any of its content. */
  readonly onFailure: (cause: unknown) => void
}

export function askOf(
  config: Pick<Config, 'settlePath' | 'routes' | 'storedResponseLimitBytes'>,
  { application, clock, onFailure }: SettlePorts,
): ((orphan: Orphan) => Promise<SettleReply>) | undefined {
  const target = config.settlePath
  if (target === undefined || application === undefined) return undefined
  const rules = rulesOf(config)
  return async (orphan) => {
    const lockId = lockIdOf({ key: orphan.recordKey, token: orphan.token })
    const body = Buffer.from(
      JSON.stringify({ lock_id: lockId, fencing_token: orphan.token, attempt: orphan.attempt }),
    )
    const result = await application.forward(
      { method: 'POST', target, headers: [['Content-Type', 'application/json']], body },
      { answerWithinMs: REPLY_WITHIN_MS, storedLimitBytes: rules.replyBytesMax },
    )
    if (result.kind !== 'answered') return 'unknown'
    const { response } = result
    await endOversized(response)
    if (response.status !== 200) return 'unknown'
    const read = response.oversized === undefined ? readReply(response.body, rules, clock) : tooLong(rules)
    if (read.trouble !== undefined) onFailure(new Error(`${target} about ${lockId}: ${read.trouble}`))
    return read.reply
  }
}

/** The rest of an oversized reply is not needed: starting and stopping the read returns the connection. */
async function endOversized({ oversized }: ApplicationResponse): Promise<void> {
  try {
    for await (const _ of oversized?.stream ?? []) break
  } catch {
    // It broke off, which says no more than a reply that is too long.
  }
}

type Rules = {
  /** Of every route that protects requests: the record may be of any. */
  readonly policies: readonly StoringPolicy[]
  readonly bodyBytesMax: number
  readonly replyBytesMax: number
}

const WITHOUT_ROUTES: StoringPolicy = {
  store: {},
  storedHeaders: [],
  omittedHeaders: [],
  bodyStorage: 'full',
  redact: [],
}

function rulesOf({ routes, storedResponseLimitBytes }: Parameters<typeof askOf>[0]): Rules {
  const protecting = routes.filter(protects)
  const limits = protecting.map((route) => route.storedResponseLimitBytes)
  const bodyBytesMax = limits.length === 0 ? storedResponseLimitBytes : Math.min(...limits)
  return {
    policies: protecting.length === 0 ? [WITHOUT_ROUTES] : protecting,
    bodyBytesMax,
    replyBytesMax: jsonBytesMax(bodyBytesMax),
  }
}

/** What is stored whatever the route is: nothing that one of them redacts, and only headers that all of them store. */
function policyForAll(policies: readonly StoringPolicy[]): StoringPolicy {
  const [first = WITHOUT_ROUTES] = policies
  return {
    store: {},
    storedHeaders: first.storedHeaders.filter((name) =>
      policies.every(({ storedHeaders }) => storedHeaders.includes(name)),
    ),
    omittedHeaders: [...new Set(policies.flatMap(({ omittedHeaders }) => omittedHeaders))],
    bodyStorage: policies.some(({ bodyStorage }) => bodyStorage === 'none') ? 'none' : 'full',
    redact: [...new Set(policies.flatMap(({ redact }) => redact))],
  }
}

type Read = {
  readonly reply: SettleReply
  /** What the operator has to know of it. */
  readonly trouble?: string
}

const unreadable = (trouble: string): Read => ({
  reply: 'unknown',
  trouble: `${trouble}. It counts as "unknown", and nothing was decided.`,
})

function tooLong({ replyBytesMax }: Rules): Read {
  return unreadable(
    `its reply is a stream or has more than ${replyBytesMax} bytes, so it was not read; leave "body_base64" out where the body is too large`,
  )
}

function readReply(bytes: Buffer, rules: Rules, clock: Clock): Read {
  let given: unknown
  try {
    given = JSON.parse(bytes.toString('utf8'))
  } catch {
    return unreadable('its reply is no JSON')
  }
  const { outcome, response } = (given ?? {}) as { readonly outcome?: unknown; readonly response?: unknown }
  if (outcome !== 'completed' && outcome !== 'released' && outcome !== 'unknown')
    return unreadable('its reply says neither completed, released nor unknown in "outcome"')
  if (response === undefined || response === null) return { reply: outcome }
  if (outcome !== 'completed')
    return unreadable(`its reply says "${outcome}", and has a "response", which only "completed" has`)
  const answer = reportedAnswerIn(response)
  if (answer === undefined)
    return unreadable(
      'the "response" of its reply is not {"status": 200 to 599, "headers": {…}, "body_base64": "…"}',
    )
  return reconciled(answer, rules, clock.wallMs())
}

function reconciled(answer: ReportedAnswer, { policies, bodyBytesMax }: Rules, wallMs: number): Read {
  const { status, headers, body } = answer
  const response = { status, headers, body: body ?? Buffer.alloc(0) }
  if (policies.some((policy) => dispositionOf(response, policy) !== 'store'))
    return unreadable(
      `the answer in its reply has the status ${status}, and such an answer is not stored, by default or by a route, so it does not settle the request`,
    )
  const policy = policyForAll(policies)
  const isTooLarge = response.body.length > bodyBytesMax
  const keepsNoBody = body === undefined || isTooLarge
  const outcome = storedOutcomeOf(response, keepsNoBody ? { ...policy, bodyStorage: 'none' } : policy, wallMs)
  const reply = { verdict: 'completed', outcome } as const
  const why = isTooLarge
    ? `has a body of ${response.body.length} bytes, and at most ${bodyBytesMax} are stored (FENCEPOST_STORED_RESPONSE_LIMIT, or a route's storedResponseLimit)`
    : whyWithoutBody(answer, policy, outcome)
  return why === undefined
    ? { reply }
    : { reply, trouble: `the answer in its reply ${why}: duplicates get 410` }
}

/** Why a body that was sent is not stored; undefined where none was sent, or it is. */
function whyWithoutBody(
  { body }: ReportedAnswer,
  { bodyStorage }: StoringPolicy,
  { kind }: StoredOutcome,
): string | undefined {
  if (body === undefined || kind === 'response') return undefined
  return bodyStorage === 'none'
    ? 'has a body, and a route stores none (bodyStorage: none)'
    : 'has a body of which it is not known whether it has values that a route redacts'
}

/** For the sweeper, the operator API and commands. A record does not name its route: what is decided lasts as long as an outcome of any route would. */
export function decisionTermsOf({
  leaseMs,
  retentionMs,
  routes,
}: Pick<Config, 'leaseMs' | 'retentionMs' | 'routes'>): DecisionTerms {
  const ofRoutes = routes.flatMap(policiesOf).map((route) => route.retentionMs)
  return { leaseMs, retentionMs: Math.max(retentionMs, ...ofRoutes) }
}
