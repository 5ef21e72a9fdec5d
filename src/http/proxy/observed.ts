/**
 * A request that is observed while it passes: its body and its answer, part by part as they go by.
 *
 * Owns the looking. Nothing is held back, changed or read that was not read anyway, and a body is kept only where there is room for it
 * beside those of protected requests.
 */

import { createHash, hash } from 'node:crypto'
import { BodyParts } from '../../core/body-parts.ts'
import type { ObservedAnswer } from '../../core/observation.ts'
import type { ObservedRoute, RouteMatchResult } from '../../core/routes/route.ts'
import type { Answer } from '../message/answer.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import type { ObservedCall, Observer } from '../request/observe.ts'
import type { BodyMemory } from '../server/body-memory.ts'
import { hasBody, type Inbound, tooLarge } from '../server/inbound.ts'

/** Of the memory for bodies: protected requests are never refused for what is only looked at. */
const SHARE = 1 / 4

/** @param pass sends the request to the application, and reads its body as it comes */
export async function observed(
  inbound: Inbound,
  request: AdmittedRequest,
  { route, params }: RouteMatchResult<ObservedRoute>,
  pass: () => Promise<Answer>,
  { bodyMemory, observer }: { readonly bodyMemory: BodyMemory; readonly observer: Observer },
): Promise<Answer> {
  const held = bodyMemory.hold()
  const body = passing(inbound, route.as.bodyLimitBytes, (bytes) => {
    if (bodyMemory.usedBytes + bytes > SHARE * bodyMemory.limitBytes) return false
    held.occupy(bytes)
    return true
  })
  const { promise: answered, resolve } = Promise.withResolvers<ObservedAnswer>()
  void observer({ request, route, params, body, answered }).finally(() => held[Symbol.dispose]())
  let answer: Answer
  try {
    answer = await pass()
  } catch (error) {
    resolve(NO_ANSWER)
    throw error
  }
  return watched(answer, resolve)
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

/** The answer as it is, and what is known of it once it has passed. */
function watched(answer: Answer, passed: (result: ObservedAnswer) => void): Answer {
  const { status, headers, body, detail } = answer
  const answeredWith = (kept: Buffer, digest: Buffer): ObservedAnswer => ({
    kind: 'answered',
    response: { status, headers, body: kept },
    digest,
  })
  if (detail === 'application-unreachable') passed({ kind: 'never_sent', detail })
  else if (detail !== 'bypassed') passed(NO_ANSWER)
  else if (Buffer.isBuffer(body)) passed(answeredWith(body, hash('sha256', body, 'buffer')))
  else {
    const digest = createHash('sha256')
    const ended = () => passed(answeredWith(Buffer.alloc(0), digest.digest()))
    return {
      ...answer,
      body: alongside(
        body,
        (part) => digest.update(part),
        ended,
        () => passed(NO_ANSWER),
      ),
    }
  }
  return answer
}

function alongside(
  body: AsyncIterable<Buffer>,
  onPart: (part: Buffer) => void,
  onEnd: () => void,
  onCut: () => void,
): AsyncIterable<Buffer> {
  return {
    [Symbol.asyncIterator]: () => {
      const parts = body[Symbol.asyncIterator]()
      return {
        next: async () => {
          try {
            const part = await parts.next()
            if (part.done === true) onEnd()
            else onPart(part.value)
            return part
          } catch (error) {
            onCut()
            throw error
          }
        },
      }
    },
  }
}
