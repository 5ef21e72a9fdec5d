/**
 * The gateway listener: answers checks of gateways in front of the application.
 *
 * Owns the token, and that a draining sidecar admits nothing new and still accepts completions. It is a listener of its own,
 * because the path and the headers of a check belong to another request, `Authorization` included.
 */

import type { Clock } from '../../core/clock.ts'
import type { Entrypoint } from '../../core/decision.ts'
import type { Events } from '../../core/events.ts'
import { linesOf } from '../../core/header-list.ts'
import { matchRoute, protects } from '../../core/routes/route.ts'
import {
  type Checked,
  type CheckOptions,
  type CheckPorts,
  check,
  type Dialect,
  type Original,
  tracedCheck,
} from '../check/check.ts'
import { checkAnswer, diagnosticsIn, TOKEN_HEADER, TOKEN_REQUIRED } from '../check/check-answers.ts'
import { type Answer, decidedEvent, problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import { isToken } from '../request/access-token.ts'
import { type Admission, type AdmittedRequest, admit } from '../request/admission.ts'
import { endToEndHeaders, rawOf } from '../request/arrival.ts'
import { nothingLeft, type Outstanding } from '../request/outstanding.ts'
import { DRAINING, failureAnswer, NO_UPGRADE, overloaded } from '../request/refusals.ts'
import { describedToTrace, forwardedScheme, tracedRequest } from '../request/traced-request.ts'
import type { BodyMemory } from '../server/body-memory.ts'
import { hasBody, type Inbound, offersWebSocket, readBody } from '../server/inbound.ts'
import type { ListenerLimits } from '../server/listener.ts'
import type { FailurePorts, ListenerTls, Listening } from '../server/listening.ts'
import { createRequestServer } from '../server/request-server.ts'
import { COMPLETION_CALLS, endClaim, NO_CALL } from './completion.ts'
import { originalOf } from './dialects.ts'

export type GatewayOptions = CheckOptions & {
  /** If present, gateways must send one of them as `Fencepost-Gateway-Token`; read at each call. */
  readonly tokens: (() => readonly string[]) | undefined
  readonly tls?: ListenerTls
  /** Largest report: the largest body that is stored, and a head. */
  readonly reportBytesMax: number
  readonly limits: ListenerLimits & { readonly inFlightMax: number; readonly headerLinesMax: number }
}

export type GatewayPorts = CheckPorts &
  FailurePorts & {
    readonly outstanding: Outstanding
    readonly clock: Clock
    readonly events: Events
    readonly bodyMemory: BodyMemory
  }

const ENTRYPOINTS: Record<Dialect, Entrypoint> = {
  'ext-authz': 'ext_authz',
  'auth-request': 'auth_request',
  'forward-auth': 'forward_auth',
}

export function createGateway(options: GatewayOptions, ports: GatewayPorts): Listening {
  const { inFlightMax, headerLinesMax } = options.limits
  const { bodyMemory } = ports
  const rules = { headerLinesMax, endToEnd: endToEndHeaders(options) }
  const server = createRequestServer(options, { handle }, ports)

  const problem = (of: Problem): Answer => problemAnswer(of, { instance: ports.newInstance })

  async function handle(inbound: Inbound): Promise<void> {
    const admission = admit(rawOf(inbound.req), rules)
    if (admission.kind === 'refused') server.endAfter(inbound)
    const answer = await answerTo(inbound, admission).catch((error: unknown) =>
      failureAnswer(error, 'check', ports),
    )
    if (answer !== undefined) await server.send(inbound, answer)
  }

  /** Undefined if the gateway disconnected before its request was complete. */
  async function answerTo(inbound: Inbound, admission: Admission): Promise<Answer | undefined> {
    if (admission.kind === 'refused') return problem(admission.problem)
    if (admission.kind === 'options') return problem(NO_CALL)
    const { request } = admission
    if (options.tokens !== undefined && !isToken(linesOf(request.headers, TOKEN_HEADER)[0], options.tokens()))
      return problem(TOKEN_REQUIRED)
    if (server.inFlight.count > inFlightMax) return problem(overloaded(inFlightMax, 'checks'))
    const read = originalOf(withoutToken(request), hasBody(inbound))
    switch (read.kind) {
      case 'original': {
        const { original } = read
        const route = matchRoute(options.routes, original.request)?.route.name
        const traced = describedToTrace(original.request, route, () => forwardedScheme(request.headers))
        return (await tracedCheck(traced, ports.tracing, () => answerToCheck(inbound, original)))?.answer
      }
      case 'malformed':
        return problem({ code: 'malformed-request', detail: read.detail })
      case 'not_a_check': {
        if (options.tokens === undefined && isOfPage(request)) return problem(PAGE_REFUSED)
        using held = bodyMemory.hold()
        const body = () => readBody(inbound, options.reportBytesMax, held)
        const call = COMPLETION_CALLS.has(request.path) ? request.path : undefined
        const traced = tracedRequest(inbound.req, request.headers, call)
        const ended = await tracedCheck(traced, ports.tracing, async () => {
          const answer = await endClaim(request, body, ports)
          return answer && { answer }
        })
        return ended?.answer
      }
    }
  }

  async function answerToCheck(
    inbound: Inbound,
    original: Original,
  ): Promise<{ readonly answer: Answer } | undefined> {
    const startedMonoMs = ports.clock.monoMs()
    const refusal = refusalOf(inbound, original)
    using held = bodyMemory.hold()
    const checked: Checked | 'gone' =
      refusal === undefined
        ? await check(original, (limitBytes) => readBody(inbound, limitBytes, held), options, ports)
        : { decided: { kind: 'refused', problem: refusal } }
    if (checked === 'gone') return undefined
    const answer = checkAnswer(checked, original, ports.newInstance)
    ports.events.publish(
      decidedEvent(answer, {
        entrypoint: ENTRYPOINTS[original.dialect],
        route: checked.route,
        durationMs: ports.clock.monoMs() - startedMonoMs,
        recordKey: checked.recordKey,
        tenant: checked.tenant,
        found: diagnosticsIn(checked.decided),
      }),
    )
    return { answer }
  }

  function refusalOf({ req }: Inbound, original: Original): Problem | undefined {
    if (server.inFlight.draining) return DRAINING
    // A gateway may send the handshake's own headers (Caddy does): on an unprotected route that is a check like any other.
    return offersWebSocket(req) && isProtected(original) ? NO_UPGRADE : undefined
  }

  function isProtected({ request }: Original): boolean {
    return protects(matchRoute(options.routes, request)?.route)
  }

  return {
    listen: (at) => server.listen(at),
    leave: server.inFlight.leave,
    // Accepts completions until all that was claimed has ended or expired.
    close: async (graceMs) => {
      const endMonoMs = ports.clock.monoMs() + graceMs
      server.inFlight.drain()
      // Open until then: a gateway may make a connection for each report.
      await nothingLeft(server.inFlight, ports.outstanding, ports.clock, graceMs)
      await server.close(Math.max(0, endMonoMs - ports.clock.monoMs()))
    },
  }
}

/**
 * Whether a page in a browser calls: a browser says of every POST from which page it comes. It can't be asked of a check, which is another
 * client's request.
 */
function isOfPage({ headers }: AdmittedRequest): boolean {
  return linesOf(headers, 'origin').length > 0
}

const PAGE_REFUSED: Problem = {
  code: 'page-refused',
  detail:
    'It has an "Origin", which no gateway sends of its own: without a token (FENCEPOST_API_TOKEN_FILE) it could be a page in a browser that calls. Nothing was done.',
}

function withoutToken(request: AdmittedRequest): AdmittedRequest {
  return { ...request, headers: request.headers.filter(([name]) => name.toLowerCase() !== TOKEN_HEADER) }
}
