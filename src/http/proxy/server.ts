/**
 * The proxy: requests that pass through the sidecar to the application, from their connection to their answer.
 *
 * Owns the order: arrive, trace, dispatch, send, publish. How a request begins and ends on its connection is
 * `server/request-server.ts`; which way it goes is `dispatch.ts`.
 */

import type { IncomingMessage } from 'node:http'
import type { HeaderList } from '../../core/header-list.ts'
import type { Route } from '../../core/routes/route.ts'
import type { RequestTrace } from '../../core/tracing.ts'
import { type Answer, decidedEvent } from '../message/answer.ts'
import { CREATED_AT_HEADER, headerPairs, REPLAYED_HEADER, STATUS_HEADER } from '../message/headers.ts'
import { type Arrived, createArrival, type Peers } from '../request/arrival.ts'
import { createObserver } from '../request/observe.ts'
import { type About, waitersByRoute } from '../request/protect.ts'
import { failureAnswer } from '../request/refusals.ts'
import { forwardedScheme, tracedRequest } from '../request/traced-request.ts'
import type { Inbound } from '../server/inbound.ts'
import type { ListenerLimits } from '../server/listener.ts'
import type { FailurePorts, ListenerTls, Listening } from '../server/listening.ts'
import { createRequestServer } from '../server/request-server.ts'
import {
  type Dispatched,
  type DispatchOptions,
  type DispatchPorts,
  dispatch,
  type Load,
  passesThrough,
} from './dispatch.ts'
import { createTunnels } from './tunnels.ts'

export type ProxyOptions = DispatchOptions & {
  readonly routes: readonly Route[]
  /** Peers whose headers of tenant, version, client and origin count. */
  readonly trustedPeers: Peers
  readonly tls?: ListenerTls
  /** Whose pages may read problems of the proxy's own. */
  readonly pageOrigins: readonly string[]
  /** Events carry the client's key itself, not only its hash. */
  readonly rawKeys: boolean
  readonly limits: ListenerLimits & { readonly inFlightMax: number; readonly headerLinesMax: number }
}

export type ProxyPorts = Omit<DispatchPorts, 'waitersOf' | 'observer'> & FailurePorts

export type ProxyServer = Listening & {
  /** Requests and tunnels in flight. */
  inFlight(): number
}

export function createProxy(options: ProxyOptions, ports: ProxyPorts): ProxyServer {
  const protecting = { ...ports, waitersOf: waitersByRoute() }
  const dispatchPorts: DispatchPorts = { ...protecting, observer: createObserver(options, protecting) }
  const arrive = createArrival(options)
  const readable = readableBy(options.pageOrigins)
  const load: Load = {
    draining: () => server.inFlight.draining,
    inFlight: () => server.inFlight.count,
    passing: () => passing + tunnels.count(),
  }
  /** Tunnels apart, which are theirs to count. */
  let passing = 0
  const inFlight = { begin: () => server.inFlight.begin(), end: () => server.inFlight.end() }
  const tunnels = createTunnels(options, { ...ports, arrive, traced, load, inFlight, publish })
  const server = createRequestServer(options, { handle, upgrade: tunnels.take }, ports)

  function handle(inbound: Inbound, startedMonoMs: number): Promise<void> {
    const arrived = arrive(inbound.req)
    const trace = traced(inbound.req, arrived)
    return trace.run(() => serve(inbound, arrived, startedMonoMs, trace))
  }

  function traced(req: IncomingMessage, { admission, matched }: Arrived): RequestTrace {
    const route = matched?.route.name
    if (admission.kind !== 'admitted')
      return ports.tracing.request(tracedRequest(req, headerPairs(req.rawHeaders), route))
    const { headers } = admission.request
    const stated = () => (options.forwarded === 'replace' ? undefined : forwardedScheme(headers))
    return ports.tracing.request(tracedRequest(req, headers, route, stated))
  }

  async function serve(
    inbound: Inbound,
    arrived: Arrived,
    startedMonoMs: number,
    trace: RequestTrace,
  ): Promise<void> {
    if (arrived.admission.kind === 'refused') server.endAfter(inbound)
    const sent = ports.bodyMemory.hold()
    let status: number | undefined
    const isPassing = passesThrough(arrived)
    if (isPassing) passing += 1
    // Not `using`, as in `protect`.
    try {
      const { answer, about } = await dispatched(inbound, arrived)
      if (answer === undefined) return
      // A client that reads slowly holds its answer for long.
      if (Buffer.isBuffer(answer.body)) sent.occupy(answer.body.length)
      await server.send(inbound, readable(answer, inbound.req))
      status = answer.status
      publish(answer, arrived, startedMonoMs, about)
    } finally {
      if (isPassing) passing -= 1
      sent[Symbol.dispose]()
      trace.ended(status)
    }
  }

  async function dispatched(inbound: Inbound, arrived: Arrived): Promise<Dispatched> {
    try {
      return await dispatch(inbound, arrived, load, options, dispatchPorts)
    } catch (error) {
      return { answer: failureAnswer(error, 'request', ports) }
    }
  }

  function publish(answer: Answer, { matched }: Arrived, startedMonoMs: number, about?: About): void {
    ports.events.publish(
      decidedEvent(answer, {
        entrypoint: 'proxy',
        route: matched?.route.name,
        durationMs: ports.clock.monoMs() - startedMonoMs,
        recordKey: about?.recordKey,
        tenant: about?.tenant,
        found: about?.found,
        shownKey: options.rawKeys ? about?.clientKey : undefined,
      }),
    )
  }

  return {
    listen: server.listen,
    inFlight: () => server.inFlight.count,
    leave: server.inFlight.leave,
    close: (graceMs) => server.close(graceMs, tunnels.cut),
  }
}

/** Of what problems carry, a page sees the others without this. */
const EXPOSED = [STATUS_HEADER, REPLAYED_HEADER, CREATED_AT_HEADER, 'Retry-After', 'Location'].join(', ')

/**
 * Which pages of other origins may read what the proxy says in its own words. A browser shows a page no answer of another origin unless the
 * answer allows it. One of the application does so itself, and a replay as it did; of a problem of the proxy's own only the proxy can. Without
 * it a page sees a failed request: neither the status nor when to try again. No answer of the application is touched, and no preflight answered
 * in its place. Source: Fetch, section 3.3 (CORS protocol).
 */
function readableBy(origins: readonly string[]): (answer: Answer, req: IncomingMessage) => Answer {
  if (origins.length === 0) return (answer) => answer
  const allowed = new Set(origins)
  return (answer, { headers: { origin } }) => {
    if (answer.instance === undefined) return answer
    const lines: HeaderList =
      origin !== undefined && allowed.has(origin)
        ? [
            ['Access-Control-Allow-Origin', origin],
            ['Access-Control-Allow-Credentials', 'true'],
            ['Access-Control-Expose-Headers', EXPOSED],
          ]
        : []
    return { ...answer, headers: [...answer.headers, ...lines, ['Vary', 'Origin']] }
  }
}
