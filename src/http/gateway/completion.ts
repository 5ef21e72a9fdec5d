/**
 * `POST /v1/gateway/complete`: a gateway that sees answers reports one, and the route's claim becomes its outcome.
 * `POST /v1/gateway/release`: it releases the claim.
 *
 * Owns the form of the report and what is stored of it. The signed reservation id of the check's answer names the claim: only its
 * holder can end it. An answer whose status settles nothing (5xx, 429, a 4xx with Retry-After) releases the claim, as in the
 * proxy.
 */

import type { Clock } from '../../core/clock.ts'
import { linesOf } from '../../core/formats/header-lines.ts'
import type { HeaderList } from '../../core/header-list.ts'
import type { Leases } from '../../core/ports.ts'
import { openReservationId } from '../../core/reservations/open-reservation-id.ts'
import { whyForeign } from '../../core/reservations/reservation-id.ts'
import type { ReservationSecret } from '../../core/reservations/reservation-secret.ts'
import { complete, type EndResult, type Reservation, release } from '../../core/reservations/reservations.ts'
import { dispositionOf, type StoringPolicy, storedOutcomeOf } from '../../core/routes/settlement.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import { ID_UNCHECKED } from '../message/unavailable.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import type { Body } from '../server/inbound.ts'

type Report = {
  readonly status: number
  readonly headers: HeaderList
  /** Absent if the gateway could not keep it: then duplicates are refused and not replayed. */
  readonly body: Buffer | undefined
}

/** Its fields in JSON: `{"status": 201, "headers": {"Location": "/things/1"}, "body_base64": "…"}`. */
function reportFrom(bytes: Buffer): Report | undefined {
  let given: unknown
  try {
    given = JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
  if (typeof given !== 'object' || given === null) return undefined
  const { status, headers = {}, body_base64: body } = given as Record<string, unknown>
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599)
    return undefined
  if (typeof headers !== 'object' || headers === null) return undefined
  if (body !== undefined && typeof body !== 'string') return undefined
  const lines: [string, string][] = []
  for (const [name, value] of Object.entries(headers)) {
    for (const line of Array.isArray(value) ? value : [value]) {
      if (typeof line !== 'string') return undefined
      lines.push([name, line])
    }
  }
  if (body === undefined) return { status, headers: lines, body }
  const decoded = Buffer.from(body, 'base64')
  // Node decodes what it can, and skips the rest.
  return withoutPadding(decoded.toString('base64')) === withoutPadding(body)
    ? { status, headers: lines, body: decoded }
    : undefined
}

function withoutPadding(base64: string): string {
  return base64.replace(/={1,2}$/, '')
}

const POLICY: StoringPolicy = { store: {}, storedHeaders: [], bodyStorage: 'full', redact: [] }

export type CompletionPorts = SettlePorts & {
  readonly secret: ReservationSecret
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
  if (call === '/v1/gateway/release') return endOf(await release(reservation, ports.leases), problem)
  const report = reportFrom(body.bytes)
  return report === undefined ? problem(NO_REPORT) : endOf(await settle(reservation, report, ports), problem)
}

type SettlePorts = { readonly leases: Leases; readonly clock: Clock }

function endOf(end: Settled, problem: (of: Problem) => Answer): Answer {
  return end.kind === 'done' || end.kind === 'held' ? NO_CONTENT : problem(endedProblem(end))
}

type Settled = EndResult | { readonly kind: 'held' }

/** Settles the claim by the application's answer. */
async function settle(
  reservation: Reservation,
  { status, headers, body }: Report,
  { leases, clock }: SettlePorts,
): Promise<Settled> {
  const response = { status, headers, body: body ?? Buffer.alloc(0) }
  switch (dispositionOf(response, POLICY)) {
    case 'release':
      return release(reservation, leases)
    case 'hold':
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
  return {
    code: 'reservation-id-invalid',
    detail: `Fencepost-Reservation-Id ${whyForeign(id)}. Nothing was changed.`,
  }
}

function endedProblem(ended: Exclude<Settled, { kind: 'done' | 'held' }>): Problem {
  switch (ended.kind) {
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
