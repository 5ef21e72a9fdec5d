/**
 * The gateway listener: answers the questions of gateways that stand in front of the application themselves.
 *
 * Owns which path is which question, the token, the number of questions under way, and the end: a draining sidecar admits
 * nothing new and still takes completions. It is a listener of its own, because the path and the headers of a check are
 * those of somebody else's request, `Authorization` included.
 */

import type { Duplex } from 'node:stream'
import type { Entrypoint, Events } from '../../core/events.ts'
import { linesOf } from '../../core/formats/header-lines.ts'
import type { Clock } from '../../core/ports.ts'
import { release } from '../../core/reservations/reservations.ts'
import { type Checked, type CheckOptions, type CheckPorts, check, idOf } from '../check/check.ts'
import { checkAnswer, DRAINING, overload } from '../check/check-answers.ts'
import { TOKEN_HEADER, TOKEN_REQUIRED } from '../check/gateway-token.ts'
import type { Dialect, Original } from '../check/original-request.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import { closesConnection, type Problem } from '../message/problems.ts'
import { isToken } from '../request/access-token.ts'
import { type Admission, type AdmittedRequest, admit } from '../request/admission.ts'
import { endToEndHeaders, rawOf } from '../request/arrival.ts'
import { decidedEvent } from '../request/decided-event.ts'
import { routeFor } from '../request/described-route.ts'
import { hasBody, type Inbound, readBody } from '../server/inbound.ts'
import { type ListenAt, whereListening } from '../server/listen-address.ts'
import { createListener, type ListenerLimits } from '../server/listener.ts'
import { createRequestScheduler } from '../server/request-scheduler.ts'
import { send } from '../server/send.ts'
import type { ListenerTls } from '../server/tls.ts'
import { offersWebSocket } from '../server/websocket-offer.ts'
import { endedProblem, opened, reportFrom, settle } from './completion.ts'
import { originalOf } from './dialects.ts'

export type GatewayOptions = CheckOptions & {
  /** Gateways must show one of them where given, as `Fencepost-Gateway-Token`; asked at each call, because they may change. */
  readonly tokens: (() => readonly string[]) | undefined
  /** Present where the listener speaks TLS. */
  readonly tls?: ListenerTls
  /** Of a completion: the head of the report besides the body that may be stored. */
  readonly reportBytesMax: number
  readonly limits: ListenerLimits & { readonly inFlightMax: number; readonly headerLinesMax: number }
}

export type GatewayPorts = CheckPorts & {
  readonly clock: Clock
  readonly events: Events
  readonly newInstance: () => string
  readonly onFailure: (error: unknown, instance: string) => void
}

export interface GatewayServer {
  listen(at: ListenAt): Promise<string>
  /** Admits nothing new; takes completions for `graceMs`, or until nothing is under way. */
  close(graceMs: number): Promise<void>
}

const SECRET_SOON_MS = 1_000

const ENTRYPOINTS: Record<Dialect, Entrypoint> = {
  'ext-authz': 'ext_authz',
  'auth-request': 'auth_request',
  'forward-auth': 'forward_auth',
}

export function createGateway(options: GatewayOptions, ports: GatewayPorts): GatewayServer {
  const { limits } = options
  const listener = createListener(limits, { take }, ports.newInstance, options.tls)
  const { server } = listener
  const rules = { headerLinesMax: limits.headerLinesMax, endToEnd: endToEndHeaders(options) }
  /** Connections whose last answer is decided: what came behind it is not looked at. */
  const ending = new WeakSet<Duplex>()
  const scheduler = createRequestScheduler(ports.clock)
  let draining = false
  let inFlight = 0

  const problem = (of: Problem): Answer =>
    problemAnswer(of, { idempotencyKey: undefined, instance: ports.newInstance })

  async function take(inbound: Inbound): Promise<void> {
    const { req } = inbound
    inFlight += 1
    try {
      const turn = scheduler.begin()
      if (turn !== undefined) await turn
      if (ending.has(req.socket)) return
      const admission = admit(rawOf(req), rules)
      if (admission.kind === 'refused') ending.add(req.socket)
      const answer = await answerTo(inbound, admission).catch(failed)
      if (answer !== undefined) {
        const close = draining || !req.complete || closesConnection(answer.detail)
        if (close) ending.add(req.socket)
        await send(inbound, answer, { readerIdleMs: limits.readerIdleMs, close })
      }
    } finally {
      inFlight -= 1
    }
  }

  function failed(error: unknown): Answer {
    const instance = ports.newInstance()
    ports.onFailure(error, instance)
    const detail = 'The sidecar failed at this check; its log says why.'
    return problemAnswer(
      { code: 'internal-error', detail },
      { idempotencyKey: undefined, instance: () => instance },
    )
  }

  async function answerTo(inbound: Inbound, admission: Admission): Promise<Answer | undefined> {
    if (admission.kind === 'refused') return problem(admission.problem)
    if (admission.kind === 'options') return problem(NO_CALL)
    const { request } = admission
    if (options.tokens !== undefined && !isToken(linesOf(request.headers, TOKEN_HEADER)[0], options.tokens()))
      return problem(TOKEN_REQUIRED)
    if (inFlight > limits.inFlightMax) return problem(overload(limits.inFlightMax))
    const read = originalOf(withoutToken(request), hasBody(inbound))
    switch (read.kind) {
      case 'original':
        return checked(inbound, read.original)
      case 'malformed':
        return problem({ code: 'malformed-request', detail: read.detail })
      case 'not_a_check':
        return ended(inbound, request)
    }
  }

  async function checked(inbound: Inbound, original: Original): Promise<Answer | undefined> {
    const startedMonoMs = ports.clock.monoMs()
    if (draining) return told({ decided: { kind: 'refused', problem: DRAINING } }, original, startedMonoMs)
    if (offersWebSocket(inbound.req) && isProtected(original))
      return told({ decided: { kind: 'refused', problem: NO_UPGRADE } }, original, startedMonoMs)
    const came = await check(original, (limitBytes) => readBody(inbound, limitBytes), options, ports)
    return came === 'gone' ? undefined : told(came, original, startedMonoMs)
  }

  function isProtected(original: Original): boolean {
    const match = routeFor(original.request, options.routes)
    return match !== undefined && match.route.mode !== 'bypass'
  }

  function told(of: Checked, { dialect }: Original, startedMonoMs: number): Answer {
    const answer = checkAnswer(of, dialect, ports.newInstance)
    ports.events.publish(
      decidedEvent(answer, {
        entrypoint: ENTRYPOINTS[dialect],
        route: of.route,
        durationMs: ports.clock.monoMs() - startedMonoMs,
        recordKey: of.recordKey,
      }),
    )
    return answer
  }

  /** The gateway says how it ended. */
  async function ended(inbound: Inbound, request: AdmittedRequest): Promise<Answer | undefined> {
    const { method, path } = request
    const call = method === 'POST' ? path : ''
    if (call !== '/v1/gateway/complete' && call !== '/v1/gateway/release') return problem(NO_CALL)
    const body = await readBody(inbound, options.reportBytesMax)
    if (body.kind === 'gone') return undefined
    if (body.kind === 'refused') return problem(body.problem)
    const reservation = await opened(idOf(request.headers), ports.secret)
    if ('code' in reservation) return problem(reservation)
    if (call === '/v1/gateway/release') return endOf(await release(reservation, ports.leases))
    const report = reportFrom(body.bytes)
    return report === undefined ? problem(NO_REPORT) : endOf(await settle(reservation, report, ports))
  }

  function endOf(end: Awaited<ReturnType<typeof settle>>): Answer {
    if (end.kind === 'done' || end.kind === 'held') return NO_CONTENT
    return problem(endedProblem(end))
  }

  return {
    listen: async ({ kind: _, ...where }) => {
      await listener.listen(where)
      void ports.secret.current(SECRET_SOON_MS)
      return whereListening(server, options.tls !== undefined)
    },
    close: async (graceMs) => {
      draining = true
      const untilMonoMs = ports.clock.monoMs() + graceMs
      const closed = listener.close()
      while (inFlight > 0 && ports.clock.monoMs() < untilMonoMs) {
        await new Promise<void>((resolve) => ports.clock.timer(DRAIN_LOOK_MS, resolve))
      }
      server.closeAllConnections()
      await closed
    },
  }
}

const DRAIN_LOOK_MS = 20

const NO_CONTENT: Answer = {
  status: 204,
  headers: [],
  body: Buffer.alloc(0),
  decision: 'bypassed',
  detail: 'ended',
}
const NO_CALL: Problem = {
  code: 'call-unknown',
  detail: 'There is no such call for gateways; see docs/gateways.md.',
}
/** Of what is not protected a gateway may ask with the handshake's own headers (Caddy does): it is a check like any other. */
const NO_UPGRADE: Problem = {
  code: 'upgrade-refused',
  detail: 'A protected request never changes the protocol of its connection. Nothing was carried out.',
}
const NO_REPORT: Problem = {
  code: 'request-invalid',
  detail:
    'A completion is JSON with "status" and optionally "headers" and "body_base64". Nothing was changed.',
}
function withoutToken(request: AdmittedRequest): AdmittedRequest {
  return { ...request, headers: request.headers.filter(([name]) => name.toLowerCase() !== TOKEN_HEADER) }
}
