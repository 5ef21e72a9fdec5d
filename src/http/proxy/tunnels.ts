/**
 * Requests for a WebSocket: which of them are forwarded, and the connections that become tunnels.
 *
 * Owns the set of tunnels, which count as in flight: a drain waits for them, and cuts those that are left at its end; and joining both
 * connections. Other protocols are not offered to the application, and a protected request never becomes a connection on which anything could
 * follow (RFC 9110, section 7.8).
 */

import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { type Duplex, PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Clock } from '../../core/clock.ts'
import { type HeaderList, linesOf } from '../../core/header-list.ts'
import { protects } from '../../core/routes/route.ts'
import type { RequestTrace } from '../../core/tracing.ts'
import { unprotectedLimit } from '../../core/units.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import {
  type ForwardedHeaders,
  type Hop,
  STATUS_HEADER,
  towardsApplication,
  towardsClient,
} from '../message/headers.ts'
import type { Problem } from '../message/problems.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import type { Arrived } from '../request/arrival.ts'
import { noAnswer } from '../request/outcome-answers.ts'
import { DRAINING, NO_UPGRADE, overloaded, overloadedByPassing } from '../request/refusals.ts'
import type { InFlight } from '../server/in-flight.ts'
import type { ListenerLimits } from '../server/listener.ts'
import type { FailurePorts } from '../server/listening.ts'
import { rawHead, writeRaw } from '../server/send.ts'
import { type ForwardPorts, hopOf } from './application.ts'
import type { DispatchOptions, Load } from './dispatch.ts'

type TunnelOptions = DispatchOptions & {
  readonly limits: Pick<ListenerLimits, 'readerIdleMs'>
}

type TunnelPorts = ForwardPorts &
  FailurePorts & {
    readonly clock: Clock
    readonly arrive: (req: IncomingMessage) => Arrived
    readonly traced: (req: IncomingMessage, arrived: Arrived) => RequestTrace
    readonly load: Load
    readonly inFlight: Pick<InFlight, 'begin' | 'end'>
    readonly publish: (answer: Answer, arrived: Arrived, startedMonoMs: number) => void
  }

type Taken = {
  readonly req: IncomingMessage
  readonly socket: Duplex
  readonly first: Buffer
  readonly arrived: Arrived
  readonly trace: RequestTrace
}

export interface Tunnels {
  /** Resolves when the tunnel has ended, or the request is refused. Never rejects. */
  take(req: IncomingMessage, socket: Duplex, first: Buffer): Promise<void>
  cut(): void
  count(): number
}

export function createTunnels(options: TunnelOptions, ports: TunnelPorts): Tunnels {
  const { load, publish } = ports
  const { inFlightMax, readerIdleMs } = options.limits
  const unprotectedMax = unprotectedLimit(inFlightMax)
  const tunnels = new Set<Duplex>()

  function take(req: IncomingMessage, socket: Duplex, first: Buffer): Promise<void> {
    const arrived = ports.arrive(req)
    const trace = ports.traced(req, arrived)
    return trace.run(() => serve({ req, socket, first, arrived, trace }))
  }

  async function serve({ req, socket, first, arrived, trace }: Taken): Promise<void> {
    const startedMonoMs = ports.clock.monoMs()
    const { admission, matched } = arrived
    const route = matched?.route
    const refuse = (of: Problem): void => {
      const answer = problemAnswer(of, { instance: ports.newInstance })
      writeRaw(socket, answer, () => socket.destroy())
      publish(answer, arrived, startedMonoMs)
      trace.ended(answer.status)
    }
    if (admission.kind === 'refused') return refuse(admission.problem)
    if (load.draining()) return refuse(DRAINING)
    if (load.inFlight() >= inFlightMax) return refuse(overloaded(inFlightMax, 'requests'))
    if (load.passing() >= unprotectedMax) return refuse(overloadedByPassing(unprotectedMax))
    if (admission.kind === 'options' || protects(route)) return refuse(NO_UPGRADE)
    const { request } = admission
    const answerWithinMs = route?.upstreamTimeoutMs ?? options.upstreamTimeoutMs
    const hop = hopOf(req, request)
    tunnels.add(socket)
    ports.inFlight.begin()
    let switched = false
    // A tunnel lives for hours: its span is the handshake, like that of any request its answer.
    const onSwitched = ({ status, decision }: Answer): void => {
      switched = true
      trace.ended(status, { decision, entrypoint: 'proxy' })
    }
    try {
      const { forwarded } = options
      const call = {
        socket: req.socket,
        first,
        request,
        hop,
        answerWithinMs,
        forwarded,
        readerIdleMs,
        onSwitched,
      }
      const answer = await passUpgrade(call, ports)
      publish(answer, arrived, startedMonoMs)
      if (!switched) trace.ended(answer.status)
    } catch (error) {
      ports.onFailure(error, ports.newInstance())
      socket.destroy()
      if (!switched) trace.ended(undefined)
    } finally {
      tunnels.delete(socket)
      ports.inFlight.end()
    }
  }

  return {
    take,
    count: () => tunnels.size,
    cut: () => {
      for (const tunnel of tunnels) tunnel.destroy()
    },
  }
}

type UpgradeCall = {
  readonly socket: Socket
  /** Bytes that the client sent after its head. */
  readonly first: Buffer
  readonly request: AdmittedRequest
  readonly hop: Hop
  readonly answerWithinMs: number
  readonly forwarded: ForwardedHeaders
  /** Longest silence of a client that does not read the application's refusal, or its last bytes. */
  readonly readerIdleMs: number
  /** Called when the handshake has succeeded, and the tunnel begins. */
  readonly onSwitched: (answer: Answer) => void
}

/** How much a client may send ahead of what the application takes. */
const AHEAD_BYTES_MAX = 64 * 1024

/** Forwards the handshake, then the bytes. Resolves when both connections have ended. Never rejects. */
async function passUpgrade(
  call: UpgradeCall,
  ports: ForwardPorts & { readonly newInstance: () => string },
): Promise<Answer> {
  const { socket, request } = call
  const gone = new AbortController()
  const leave = (): void => gone.abort()
  socket
    .on('error', () => {})
    .once('end', leave)
    .once('close', leave)
  if (socket.destroyed) leave()
  // Read from the beginning: a connection that nobody reads does not show its end.
  const sent = new PassThrough({ highWaterMark: AHEAD_BYTES_MAX })
  if (call.first.length > 0) sent.write(call.first)
  socket.pipe(sent)
  const headers = ports.tracing.outgoing(towardsApplication(request.headers, call.hop, call.forwarded))
  const { method, target } = request
  const handshake = { method, target, headers, body: undefined, peer: socket }
  const reply = await ports.application.upgrade(handshake, 'websocket', call.answerWithinMs, gone.signal)
  switch (reply.kind) {
    case 'tunnel':
      socket.write(switching(reply.headers))
      call.onSwitched(SWITCHED)
      await joined(socket, sent, reply.socket, call.readerIdleMs)
      return SWITCHED
    case 'answered': {
      const passed: Answer = {
        status: reply.status,
        headers: [
          ...towardsClient(reply.headers).filter(([name]) => name.toLowerCase() !== 'date'),
          [STATUS_HEADER, 'bypassed'],
        ],
        body: reply.body,
        decision: 'bypassed',
        detail: 'bypassed',
      }
      await asItComes(call, passed, linesOf(reply.headers, 'content-length')[0])
      return passed
    }
    case 'never_sent':
    case 'no_answer': {
      const problem =
        reply.kind === 'never_sent'
          ? ({
              code: 'application-unreachable',
              detail: 'No connection to the application. Nothing was sent.',
            } as const)
          : noAnswer(reply.cause, call.answerWithinMs)
      const refused = problemAnswer(problem, { instance: ports.newInstance }, 'bypassed')
      const answer: Answer = { ...refused, because: reply.detail }
      await raw(socket, answer)
      return answer
    }
  }
}

/** Already sent; for metrics and the log. */
const SWITCHED: Answer = {
  status: 101,
  headers: [],
  body: Buffer.alloc(0),
  decision: 'bypassed',
  detail: 'upgraded',
}

function raw(socket: Duplex, answer: Answer): Promise<void> {
  return new Promise((resolve) => {
    writeRaw(socket, answer, () => {
      socket.destroy()
      resolve()
    })
    socket.once('close', resolve)
  })
}

/**
 * Any answer, of any length: Node has handed over the connection, and neither frames what is sent on it nor looks for a client that does
 * not read.
 */
async function asItComes(
  { socket, request, readerIdleMs }: UpgradeCall,
  answer: Answer,
  length: string | undefined,
): Promise<void> {
  const bodyless = answer.status === 204 || answer.status === 304
  const chunked = length === undefined && !bodyless && request.httpVersion === '1.1'
  const framing: HeaderList = chunked
    ? [['Transfer-Encoding', 'chunked']]
    : length === undefined || answer.status === 204
      ? []
      : [['Content-Length', length]]
  async function* bytes(): AsyncGenerator<Buffer> {
    yield rawHead(answer, framing)
    for await (const part of Buffer.isBuffer(answer.body) ? [answer.body] : answer.body) {
      socket.setTimeout(readerIdleMs)
      if (chunked) yield Buffer.from(`${part.length.toString(16)}\r\n`)
      yield part
      if (chunked) yield Buffer.from('\r\n')
      // Between two parts the application is silent, and upstream/ limits for how long.
      socket.setTimeout(0)
    }
    socket.setTimeout(readerIdleMs)
    if (chunked) yield Buffer.from('0\r\n\r\n')
  }
  socket.on('timeout', () => socket.destroy())
  // The application cut it, or the client disconnected or does not read: both ends close.
  await pipeline(Readable.from(bytes()), socket).catch(() => {})
  socket.destroy()
}

function switching(headers: HeaderList): Buffer {
  const protocol = linesOf(headers, 'upgrade')[0] ?? 'websocket'
  const lines = [
    'HTTP/1.1 101 Switching Protocols',
    `Upgrade: ${protocol}`,
    'Connection: Upgrade',
    ...towardsClient(headers).map(([name, value]) => `${name}: ${value}`),
  ]
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
}

/**
 * When one connection ends, the other ends as well: at its end with what was sent before it, and when it breaks at once.
 *
 * @param sent what the client has sent
 */
function joined(client: Socket, sent: Readable, application: Socket, readerIdleMs: number): Promise<void> {
  return new Promise((resolve) => {
    client.on('close', () => {
      // It has closed after its end only where the application had ended, too.
      application.destroy()
      if (application.closed) resolve()
    })
    application
      .on('error', () => {})
      .on('close', () => {
        if (client.closed) resolve()
        else if (application.readableEnded) endAfterAll(client, readerIdleMs)
        else client.destroy()
      })
    // No event tells of what was over before.
    if (client.destroyed || application.destroyed) {
      client.destroy()
      application.destroy()
      if (client.closed && application.closed) resolve()
    }
    sent.pipe(application)
    application.pipe(client)
  })
}

/** How long a client that was sent everything has for ending its own side. */
const LINGER_MS = 1_000

/**
 * The pipe has ended it, but its last bytes may still wait for a client that reads slowly. What the client sends meanwhile is dropped:
 * unread, it would make a reset of the end, which takes back what is on its way.
 */
function endAfterAll(client: Socket, readerIdleMs: number): void {
  const cut = (): void => void client.destroy()
  const linger = (): void => {
    const timer = setTimeout(cut, LINGER_MS)
    client.once('close', () => clearTimeout(timer))
  }
  client.setTimeout(readerIdleMs, cut).unpipe().resume()
  if (client.writableFinished) linger()
  else client.once('finish', linger)
}
