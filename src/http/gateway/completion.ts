/**
 * `POST /v1/gateway/complete`: a gateway that sees answers reports one, and the route's claim becomes its outcome.
 * `POST /v1/gateway/release`: it releases the claim.
 *
 * Owns what is stored of the report; its form is in `reported-answer.ts`. The signed reservation id of the check's answer names the claim: only its
 * holder can end it. An answer whose status settles nothing (429, most 5xx, a 4xx with Retry-After) releases the claim, as in the
 * proxy.
 */

import type { Clock } from '../../core/clock.ts'
import { linesOf } from '../../core/header-list.ts'
import type { Leases } from '../../core/ports.ts'
import { openReservationId, WHY_LOST, whyForeign } from '../../core/reservations/reservation-id.ts'
import type { ReservationSecret } from '../../core/reservations/reservation-secret.ts'
import { complete, type EndResult, type Reservation, release } from '../../core/reservations/reservations.ts'
import { dispositionOf, type StoringPolicy, storedOutcomeOf } from '../../core/routes/settlement.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import { ID_UNCHECKED } from '../message/record-problems.ts'
import { type ReportedAnswer, reportedAnswerIn } from '../message/reported-answer.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import type { Outstanding } from '../request/outstanding.ts'
import type { Body } from '../server/inbound.ts'

function reportFrom(bytes: Buffer): ReportedAnswer | undefined {
  try {
    return reportedAnswerIn(JSON.parse(bytes.toString('utf8')))
  } catch {
    return undefined
  }
}

const POLICY: StoringPolicy = {
  store: {},
  storedHeaders: [],
  omittedHeaders: [],
  bodyStorage: 'full',
  redact: [],
}

type CompletionPorts = SettlePorts & {
  readonly secret: ReservationSecret
  readonly outstanding: Pick<Outstanding, 'ended'>
  readonly newInstance: () => string
  readonly tracing: Tracing
}

/** The calls, as traces name them. */
export const COMPLETION_CALLS: ReadonlySet<string> = new Set(['/v1/gateway/complete', '/v1/gateway/release'])

/** Answers a gateway's report; undefined if the gateway disconnected before its report was complete. */
export async function endClaim(
  { method, path, headers }: AdmittedRequest,
  read: () => Promise<Body>,
  ports: CompletionPorts,
): Promise<Answer | undefined> {
  const problem = (of: Problem): Answer => problemAnswer(of, { instance: ports.newInstance })
  const call = method === 'POST' ? path : ''
  if (!COMPLETION_CALLS.has(call)) return problem(NO_CALL)
  const body = await read()
  if (body.kind === 'gone') return undefined
  if (body.kind === 'refused') return problem(body.problem)
  const reservation = await opened(
    linesOf(headers, 'fencepost-reservation-id')[0]?.trim() ?? '',
    ports.secret,
  )
  if ('code' in reservation) return problem(reservation)
  const { intents, token, trace } = reservation
  if (trace !== undefined) for (const { recordKey } of intents) ports.tracing.resumed(recordKey, token, trace)
  const report = call === '/v1/gateway/release' ? 'release' : reportFrom(body.bytes)
  if (report === undefined) return problem(NO_REPORT)
  const end =
    report === 'release' ? await release(reservation, ports.leases) : await settle(reservation, report, ports)
  if (end.kind !== 'unavailable') ports.outstanding.ended(reservation)
  return endOf(end, problem)
}

type SettlePorts = { readonly leases: Leases; readonly clock: Clock }

function endOf(end: Settled, problem: (of: Problem) => Answer): Answer {
  return end.kind === 'done' || end.kind === 'held' ? NO_CONTENT : problem(endedProblem(end))
}

type Settled = EndResult | { readonly kind: 'held' }

/** Settles the claim by the application's answer. */
async function settle(
  reservation: Reservation,
  { status, headers, body }: ReportedAnswer,
  { leases, clock }: SettlePorts,
): Promise<Settled> {
  const response = { status, headers, body: body ?? Buffer.alloc(0) }
  switch (dispositionOf(response, POLICY, reservation.attempt)) {
    case 'release':
      return release(reservation, leases)
    case 'hold':
    case 'unknown':
      return { kind: 'held' }
    case 'store': {
      const policy: StoringPolicy = body === undefined ? { ...POLICY, bodyStorage: 'none' } : POLICY
      return complete(reservation, storedOutcomeOf(response, policy, clock.wallMs()), leases)
    }
  }
}

async function opened(id: string, secret: ReservationSecret): Promise<Reservation | Problem> {
  const of = await openReservationId(id, secret)
  if (of.kind === 'reservation') return of.reservation
  if (of.kind === 'unavailable') return ID_UNCHECKED
  if (of.kind === 'lost') return { code: 'reservation-lost', detail: `Fencepost-Reservation-Id ${WHY_LOST}.` }
  return {
    code: 'reservation-id-invalid',
    detail: `Fencepost-Reservation-Id ${whyForeign(id)}. Nothing was changed.`,
  }
}

function endedProblem(ended: Exclude<Settled, { kind: 'done' | 'held' }>): Problem {
  switch (ended.kind) {
    case 'done_otherwise':
      return {
        code: 'fenced',
        detail: 'It was completed before with another answer, which stands. Nothing was changed.',
      }
    case 'fenced':
      return {
        code: 'fenced',
        detail: 'Another attempt came after this one, and its outcome counts. Nothing was changed.',
      }
    case 'undecided':
      return {
        code: 'completion-undecided',
        detail:
          'Another attempt came after this one, and it is not known that nothing of this is recorded: a node has it, or may have it. The next request with the same key settles it.',
        retryAfterMs: 1_000,
      }
    case 'unavailable':
      return {
        code: 'quorum-unavailable',
        detail:
          'Fewer nodes answered than are required, so it is not known whether this took effect. Send it again, unchanged: doing it twice changes nothing.',
        retryAfterMs: 1_000,
      }
  }
}

const NO_CONTENT: Answer = {
  status: 204,
  headers: [],
  body: Buffer.alloc(0),
  decision: 'bypassed',
  detail: 'ended',
}

export const NO_CALL: Problem = {
  code: 'call-unknown',
  detail: 'There is no such call for gateways; see docs/guide/gateways.md.',
}

const NO_REPORT: Problem = {
  code: 'request-invalid',
  detail:
    'A completion is JSON with "status" and optionally "headers" and "body_base64". Nothing was changed.',
}
