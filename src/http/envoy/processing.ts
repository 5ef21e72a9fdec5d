/**
 * Envoy's ext_proc: requests and answers that pass through Envoy, protected by the same algorithm as in the proxy. Instead of a
 * connection to the application there is the exchange with Envoy (`exchange.ts`).
 *
 * Owns the way of one request from its stream to its answer. Envoy aborts a request that its client gives up; then its outcome is
 * unknown, and its claim stays until the lease ends.
 */

import { type HeaderLine, type HeaderList, linesOf } from '../../core/header-list.ts'
import { matchRoute, protects, type Route } from '../../core/routes/route.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Answer, decidedEvent, problemAnswer } from '../message/answer.ts'
import { type Claimed, claimedLines } from '../message/headers.ts'
import type { Problem } from '../message/problems.ts'
import { type AdmissionRules, type AdmittedRequest, admit } from '../request/admission.ts'
import { unseen } from '../request/observe.ts'
import {
  type About,
  type Protected,
  type ProtectOptions,
  type ProtectPorts,
  protect,
} from '../request/protect.ts'
import { failureAnswer, NO_UPGRADE } from '../request/refusals.ts'
import { describedToTrace, forwardedScheme } from '../request/traced-request.ts'
import type { BodyMemory } from '../server/body-memory.ts'
import type { FailurePorts } from '../server/listening.ts'
import type { Conversation } from './conversation.ts'
import { type Exchange, exchangeOver, type HeaderChanges } from './exchange.ts'
import { ordinaryLines, pseudoHeader } from './messages.ts'

export type ProcessingOptions = ProtectOptions & {
  readonly routes: readonly Route[]
  readonly rawKeys: boolean
  readonly rules: AdmissionRules
}

export type ProcessingPorts = ProtectPorts &
  FailurePorts & { readonly tracing: Tracing; readonly bodyMemory: BodyMemory }

/** Never rejects. @param busy the reason why nothing new is admitted, if there is one */
export async function processOne(
  conversation: Conversation,
  busy: () => Problem | undefined,
  options: ProcessingOptions,
  ports: ProcessingPorts,
): Promise<void> {
  const startedMonoMs = ports.clock.monoMs()
  const first = await conversation.next()
  if (first?.request === 'requestHeaders') {
    const exchange = exchangeOver(conversation, first)
    await serve(exchange, conversation.ended, busy, startedMonoMs, options, ports)
    return
  }
  // Envoy's answer to a request that another filter refused before this one saw it.
  if (first?.request === 'responseHeaders') {
    conversation.answer({ responseHeaders: { response: {} } })
    conversation.leave()
  } else if (first !== undefined) conversation.fail(HEADS_NOT_SHOWN)
  else conversation.leave()
}

async function serve(
  exchange: Exchange,
  ended: AbortSignal,
  busy: () => Problem | undefined,
  startedMonoMs: number,
  options: ProcessingOptions,
  ports: ProcessingPorts,
): Promise<void> {
  const { head } = exchange
  const headers = ordinaryLines(head)
  const method = pseudoHeader(head, ':method') ?? ''
  const target = pseudoHeader(head, ':path') ?? ''
  const admission = admit({ method, target, httpVersion: '1.1', headers }, options.rules)
  const match = admission.kind === 'admitted' ? matchRoute(options.routes, admission.request) : undefined
  const route = match?.route
  const stated = () => forwardedScheme(headers) ?? pseudoHeader(head, ':scheme')
  const trace = ports.tracing.request(describedToTrace({ method, headers }, route?.name, stated))
  const problem = (of: Problem): Answer => problemAnswer(of, { instance: ports.newInstance })

  async function decide(): Promise<Done> {
    if (admission.kind === 'refused') return replacing(problem(admission.problem))
    if (admission.kind === 'options' || match === undefined || !protects(match.route)) {
      if (match?.route.mode === 'observe') ports.events.publish(unseen(match.route))
      return BYPASSED
    }
    const refusal = busy() ?? (asksForUpgrade(headers) ? NO_UPGRADE : undefined)
    if (refusal !== undefined) return replacing(problem(refusal))
    const { request } = admission
    const { storedResponseLimitBytes: storedLimitBytes } = match.route
    using held = ports.bodyMemory.hold()
    const call = {
      request,
      route: match.route,
      params: match.params,
      // Envoy's own timeouts apply.
      answerWithinMs: undefined,
      readBody: (limitBytes: number) => exchange.readBody(limitBytes, held),
      abandoned: ended,
      forward: (_: Buffer, claimed: Claimed | undefined) => {
        return exchange.forward(changesTowards(request, claimed, ports.tracing), storedLimitBytes, held)
      },
    }
    return doneWith(await protect(call, options, ports))
  }

  await trace.run(async () => {
    let done: Done
    try {
      done = await decide()
    } catch (error) {
      done = replacing(failureAnswer(error, 'request', ports))
    }
    const { answer, about } = done
    if (answer === undefined) return trace.ended(undefined)
    if (done.passesOn) exchange.passOn(answer)
    else exchange.replace(answer)
    ports.events.publish(
      decidedEvent(answer, {
        entrypoint: 'ext_proc',
        route: route?.name,
        durationMs: ports.clock.monoMs() - startedMonoMs,
        recordKey: about?.recordKey,
        tenant: about?.tenant,
        found: about?.found,
        shownKey: options.rawKeys ? about?.clientKey : undefined,
      }),
    )
    // After the decision, which is told in the span, and in a log line with its trace.
    trace.ended(answer.status)
  })
}

/** Without an answer if Envoy ended the stream before the request was complete. */
type Done = { readonly answer?: Answer; readonly passesOn: boolean; readonly about?: About }

function doneWith(result: Protected): Done {
  switch (result.kind) {
    case 'answer':
      return result
    case 'gone':
      return { passesOn: false }
    case 'unkeyed':
      return BYPASSED
  }
}

function replacing(answer: Answer): Done {
  return { answer, passesOn: false }
}

/** What the head of the request becomes on its way to the application. */
function changesTowards(
  { headers }: AdmittedRequest,
  claimed: Claimed | undefined,
  tracing: Tracing,
): HeaderChanges {
  const traced = tracing.outgoing(headers, claimed)
  const came = new Set(headers.map(textOf))
  const goes = new Set(traced.map(textOf))
  const differing = [
    ...headers.filter((line) => !goes.has(textOf(line))),
    ...traced.filter((line) => !came.has(textOf(line))),
  ]
  const changed = new Set(differing.map(([name]) => name.toLowerCase()))
  const lines = traced.filter(([name]) => changed.has(name.toLowerCase()))
  const set = [...(claimed === undefined ? [] : claimedLines(claimed)), ...lines]
  return { set, removed: [...changed].filter((name) => linesOf(traced, name).length === 0) }
}

function textOf([name, value]: HeaderLine): string {
  return `${name}\0${value}`
}

function asksForUpgrade(headers: HeaderList): boolean {
  return linesOf(headers, 'upgrade').some((value) => /\bwebsocket\b/i.test(value))
}

const BYPASSED: Done = {
  passesOn: true,
  answer: {
    // The status of the check; the application's answer is not seen.
    status: 200,
    headers: [],
    body: Buffer.alloc(0),
    decision: 'bypassed',
    detail: 'bypassed',
  },
}

/** FAILED_PRECONDITION */
const HEADS_NOT_SHOWN = { code: 9, details: 'request_header_mode has to be SEND' }
