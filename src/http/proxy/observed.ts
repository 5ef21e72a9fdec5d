/**
 * A request that is observed while it passes: its body and its answer, part by part as they go by.
 *
 * Owns the looking. Nothing is held back, changed or read that was not read anyway, and a body is kept only where there is room for it
 * beside those of protected requests.
 */

import { createHash, hash } from 'node:crypto'
import { BodyParts } from '../../core/body-parts.ts'
import type { ObservedAnswer } from '../../core/observation.ts'
import type { Failure, PassedOn } from '../../core/ports.ts'
import type { ObservedRoute, RouteMatchResult } from '../../core/routes/route.ts'
import type { Answer } from '../message/answer.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import type { ObservedCall, Observer } from '../request/observe.ts'
import type { BodyMemory } from '../server/body-memory.ts'
import { hasBody, type Inbound, tooLarge } from '../server/inbound.ts'
import type { Application } from './application.ts'

/** Of the memory for bodies: protected requests are never refused for what is only looked at. */
const SHARE = 1 / 4

/** @param pass sends the request to the application that it is given, and reads its body as it comes */
export async function observed(
  inbound: Inbound,
  request: AdmittedRequest,
  { route, params }: RouteMatchResult<ObservedRoute>,
  pass: (application: Application) => Promise<Answer>,
  { bodyMemory, observer, application }: ObservedPorts,
): Promise<Answer> {
  const held = bodyMemory.hold()
  const body = passing(inbound, route.as.bodyLimitBytes, (bytes) => {
    if (bodyMemory.usedBytes + bytes > SHARE * bodyMemory.limitBytes) return false
    held.occupy(bytes)
    return true
  })
  const { promise: answered, resolve } = Promise.withResolvers<ObservedAnswer>()
  void observer({ request, route, params, body, answered }).finally(() => held[Symbol.dispose]())
  try {
    return await pass({
      ...application,
      stream: async (...call) => watched(await application.stream(...call), resolve),
    })
  } catch (error) {
    resolve(NO_ANSWER)
    throw error
  }
}

type ObservedPorts = {
  readonly bodyMemory: BodyMemory
  readonly observer: Observer
  readonly application: Application
}

const NO_ANSWER: ObservedAnswer = { kind: 'no_answer', cause: 'reset', detail: 'no whole answer passed' }

/** Must be called before the body is read: it looks on. */
function passing(
  { req }: Inbound,
  limitBytes: number,
  fits: (bytes: number) => boolean,
): ObservedCall['body'] {
  if (!hasBody({ req } as Inbound)) return Promise.resolve({ kind: 'whole', bytes: Buffer.alloc(0) })
  return new Promise((resolve) => {
    const parts = new BodyParts()
    let bytes = 0
    const settle = (body: Awaited<ObservedCall['body']>): void => {
      req.off('data', onData).off('end', onEnd).off('close', onGone)
      resolve(body)
    }
    const onData = (part: Buffer): void => {
      bytes += part.length
      if (bytes > limitBytes) settle(tooLarge(limitBytes))
      else if (fits(part.length)) parts.add(part)
      else settle({ kind: 'unseen' })
    }
    const onEnd = (): void => settle({ kind: 'whole', bytes: parts.whole() })
    const onGone = (): void => settle({ kind: 'gone' })
    req.on('data', onData).on('end', onEnd).on('close', onGone)
    // Whoever reads the body begins: a listener alone must not.
    req.pause()
    if (req.destroyed) onGone()
  })
}

/** What the application answers, as it came, and what is known of it once it has passed. */
function watched(reply: PassedOn | Failure, passed: (result: ObservedAnswer) => void): PassedOn | Failure {
  if (reply.kind !== 'answered') {
    passed(reply)
    return reply
  }
  const { status, headers, body } = reply
  const answeredWith = (kept: Buffer, digest: Buffer): ObservedAnswer => ({
    kind: 'answered',
    response: { status, headers, body: kept },
    digest,
  })
  if (!Buffer.isBuffer(body))
    return {
      ...reply,
      body: alongside(body, (digest) => passed(answeredWith(Buffer.alloc(0), digest)), passed),
    }
  passed(answeredWith(body, hash('sha256', body, 'buffer')))
  return reply
}

async function* alongside(
  body: AsyncIterable<Buffer>,
  ended: (digest: Buffer) => void,
  cut: (none: ObservedAnswer) => void,
): AsyncGenerator<Buffer, void> {
  const digest = createHash('sha256')
  try {
    for await (const part of body) {
      digest.update(part)
      yield part
    }
    ended(digest.digest())
  } finally {
    // After its end this says nothing.
    cut(NO_ANSWER)
  }
}
