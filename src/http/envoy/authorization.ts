/**
 * Envoy's ext_authz over gRPC: the same check as over HTTP (`check/check.ts`), in messages.
 *
 * Owns reading the request from a message, and what is known of its body: fewer bytes than the request states are a part, and a
 * part never counts as a body. Refusals are answers, 503 included, with their headers; so the filter's setting for failures
 * (`failure_mode_allow`) never lets a refused request through.
 */

import type { Clock } from '../../core/clock.ts'
import type { Events } from '../../core/events.ts'
import { type HeaderList, linesOf } from '../../core/header-list.ts'
import { matchRoute } from '../../core/routes/route.ts'
import {
  type Checked,
  type CheckOptions,
  type CheckPorts,
  check,
  type Original,
  tracedCheck,
} from '../check/check.ts'
import { checkAnswer, diagnosticsIn, foreignNames, grantedHeaders } from '../check/check-answers.ts'
import { type Answer, decidedEvent, problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import { type AdmissionRules, admit } from '../request/admission.ts'
import { failureAnswer } from '../request/refusals.ts'
import { describedToTrace, forwardedScheme } from '../request/traced-request.ts'
import type { BodyMemory, HeldBody } from '../server/body-memory.ts'
import { type Body, memoryFull, tooLarge } from '../server/inbound.ts'
import type { FailurePorts } from '../server/listening.ts'
import { towardsGrpc } from './grpc-refusal.ts'
import {
  type CheckedHttpRequest,
  type CheckRequest,
  type CheckResponse,
  linesFrom,
  ordinaryLines,
  setting,
} from './messages.ts'

type AuthorizationOptions = CheckOptions & { readonly rules: AdmissionRules }

type AuthorizationPorts = CheckPorts &
  FailurePorts & { readonly clock: Clock; readonly events: Events; readonly bodyMemory: BodyMemory }

/** Never rejects. @param busy the reason why nothing new is admitted, if there is one */
export async function authorize(
  request: CheckRequest,
  busy: () => Problem | undefined,
  options: AuthorizationOptions,
  ports: AuthorizationPorts,
): Promise<CheckResponse> {
  const startedMonoMs = ports.clock.monoMs()
  const full = busy()
  const question: Question =
    full === undefined ? questionFrom(request, options.rules) : { kind: 'refused', problem: full }
  const decide = async (): Promise<Authorized> => {
    const done = await authorized(request, question, options, ports)
    const { answer, checked } = done
    ports.events.publish(
      decidedEvent(answer, {
        entrypoint: 'ext_authz',
        route: checked?.route,
        durationMs: ports.clock.monoMs() - startedMonoMs,
        recordKey: checked?.recordKey,
        tenant: checked?.tenant,
        found: checked && diagnosticsIn(checked.decided),
      }),
    )
    return done
  }
  // What is refused unread has no trace that it could belong to.
  if (question.kind === 'refused') return (await decide()).response
  const { request: about } = question.original
  const route = matchRoute(options.routes, about)?.route.name
  const traced = describedToTrace(about, route, () => forwardedScheme(about.headers))
  return (await tracedCheck(traced, ports.tracing, decide)).response
}

/** The message for Envoy, and the equivalent answer for events. */
type Authorized = { readonly response: CheckResponse; readonly answer: Answer; readonly checked?: Checked }

async function authorized(
  asked: CheckRequest,
  question: Question,
  options: AuthorizationOptions,
  ports: AuthorizationPorts,
): Promise<Authorized> {
  if (question.kind === 'refused')
    return refusedWith(problemAnswer(question.problem, { instance: ports.newInstance }), asked)
  const { original, readBody } = question
  using held = ports.bodyMemory.hold()
  try {
    const checked = await check(original, (limitBytes) => readBody(limitBytes, held), options, ports)
    if (checked === 'gone') throw new Error('a body that is there can not be gone')
    const answer = checkAnswer(checked, original, ports.newInstance)
    return { response: responseFor(checked, original, answer), answer, checked }
  } catch (error) {
    return refusedWith(failureAnswer(error, 'check', ports), asked)
  }
}

function refusedWith(answer: Answer, { attributes }: CheckRequest): Authorized {
  return { response: refusal(answer, headerLines(attributes?.request?.http ?? {})), answer }
}

type ReadCounted = (limitBytes: number, held: HeldBody) => Promise<Body>

type Question =
  | { readonly kind: 'question'; readonly original: Original; readonly readBody: ReadCounted }
  | { readonly kind: 'refused'; readonly problem: Problem }

function questionFrom({ attributes }: CheckRequest, rules: AdmissionRules): Question {
  const http = attributes?.request?.http
  if (http === undefined) return { kind: 'refused', problem: NO_REQUEST }
  const { id, method = '', path = '', host = '' } = http
  const lines = headerLines(http)
  const hosts: HeaderList = linesOf(lines, 'host').length > 0 || host === '' ? [] : [['host', host]]
  const headers = [...hosts, ...lines]
  const admission = admit({ method, target: path, httpVersion: '1.1', headers }, rules)
  switch (admission.kind) {
    case 'refused':
      return admission
    case 'options':
      return { kind: 'refused', problem: NO_REQUEST }
    case 'admitted': {
      const { request } = admission
      const known = knownOf(http, lines)
      const bytes = known === 'whole' && http.rawBody !== undefined ? http.rawBody : Buffer.alloc(0)
      // Envoy repeats its own number of the request with every retry of a check, and no client can set it. Without one every
      // check is a new one: X-Request-Id may be a client's, and two of its requests would be let through under one claim.
      const hopId = id === undefined || id === '' ? undefined : `envoy\0${id}`
      const original = { dialect: 'ext-authz', request, hopId, body: known } as const
      return {
        kind: 'question',
        original,
        readBody: async (limitBytes, held) => within(bytes, limitBytes, held),
      }
    }
  }
}

function headerLines({ headerMap, headers = {} }: CheckedHttpRequest): HeaderList {
  const text = Object.entries(headers).map(([key, value]) => ({ key, value }))
  return ordinaryLines(linesFrom(headerMap?.headers === undefined ? { headers: text } : headerMap))
}

function within(bytes: Buffer, limitBytes: number, held: HeldBody): Body {
  if (bytes.length > limitBytes) return tooLarge(limitBytes)
  return held.take(bytes.length) ? { kind: 'whole', bytes } : memoryFull(held)
}

/** A missing body is no proof: the filter may be configured to send none. */
function knownOf({ rawBody, size = -1 }: CheckedHttpRequest, lines: HeaderList): Original['body'] {
  if (linesOf(lines, 'x-envoy-auth-partial-body').some((value) => value !== 'false')) return 'partial'
  if (rawBody === undefined || rawBody.length === 0) return 'unknown'
  return size >= 0 && rawBody.length !== size ? 'partial' : 'whole'
}

function responseFor({ decided }: Checked, { request }: Original, answer: Answer): CheckResponse {
  switch (decided.kind) {
    case 'granted':
      return letThrough(request.headers, grantedHeaders(decided))
    case 'passed':
    case 'unprotected':
      return letThrough(request.headers, [])
    default:
      return refusal(answer, request.headers)
  }
}

function letThrough(came: HeaderList, headers: HeaderList): CheckResponse {
  const headersToRemove = foreignNames(came, headers)
  return { status: { code: GRPC_OK }, okResponse: { headers: setting(headers, 'text'), headersToRemove } }
}

function refusal(answer: Answer, came: HeaderList): CheckResponse {
  const { status, headers, body } = towardsGrpc(answer, came)
  return {
    status: { code: GRPC_PERMISSION_DENIED },
    deniedResponse: {
      status: { code: status },
      headers: setting(headers, 'text'),
      // The answer to a check is never a stream.
      body: Buffer.isBuffer(body) ? body.toString('utf8') : '',
    },
  }
}

/** Any code but 0 refuses; the answer has what the client gets. */
const GRPC_OK = 0
const GRPC_PERMISSION_DENIED = 7

const NO_REQUEST: Problem = {
  code: 'malformed-request',
  detail: 'The check does not say the request that it is about.',
}
