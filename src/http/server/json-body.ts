/**
 * The body of a call: read whole, and as JSON.
 *
 * Owns how it is read, in little more memory than its bytes however it was cut, what is JSON for a listener of calls, and the answers to
 * what is none.
 */

import type { FastifyError, FastifyInstance } from 'fastify'
import { BodyParts } from '../../core/body-parts.ts'
import { decodeUtf8 } from '../../core/formats/framing.ts'
import { nestsDeeperThan } from '../../core/formats/json.ts'
import type { Problem } from '../message/problems.ts'

const NOT_JSON = 'FENCEPOST_NOT_JSON'
const TOO_DEEP = 'FENCEPOST_TOO_DEEP'
const TOO_LARGE = 'FENCEPOST_TOO_LARGE'
/**
 * What is stored of a body is written again in every answer to a duplicate, whose writing recurses: some thousands of levels end the
 * stack there. Half of where the readers of callers stop (Python, Jackson).
 */
const BODY_LEVELS_MAX = 500

/** Fastify's own reader keeps each chunk as it came, which takes hundreds of bytes for one of a single byte. */
export function readJsonBodies(app: FastifyInstance, bytesMax: number): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', (request, stream, done) => {
    if (Number(request.headers['content-length']) > bytesMax) return done(fault(TOO_LARGE))
    const parts = new BodyParts()
    let bytes = 0
    const settle = (error: Error | null, body?: unknown): void => {
      stream.off('data', onData).off('end', onEnd).off('error', onError)
      done(error, body)
    }
    const onData = (part: Buffer): void => {
      bytes += part.length
      if (bytes > bytesMax) settle(fault(TOO_LARGE))
      else parts.add(part)
    }
    const onEnd = (): void => {
      const parsed = jsonOf(parts.whole())
      if ('code' in parsed) settle(fault(parsed.code))
      else settle(null, parsed.value)
    }
    const onError = (error: Error): void => settle(error)
    stream.on('data', onData).on('end', onEnd).on('error', onError)
  })
}

function jsonOf(bytes: Buffer): { readonly value: unknown } | { readonly code: string } {
  const text = decodeUtf8(bytes) ?? ''
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { code: NOT_JSON }
  }
  return nestsDeeperThan(BODY_LEVELS_MAX, text) ? { code: TOO_DEEP } : { value }
}

function fault(code: string): Error {
  return Object.assign(new Error('the body can not be taken'), { code })
}

export function isTooLarge({ code }: FastifyError): boolean {
  return code === TOO_LARGE
}

/** Undefined where the error is another one. */
export function bodyProblem({ code }: FastifyError, bytesMax: number): Problem | undefined {
  switch (code) {
    case TOO_LARGE:
      return {
        code: 'body-too-large',
        detail: `The body is larger than ${bytesMax} bytes, which is the limit. Nothing was done.`,
      }
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_EMPTY_TYPE':
      return { code: 'media-type-unsupported', detail: 'Send the body as application/json.' }
    case NOT_JSON:
      return { code: 'request-invalid', detail: 'The body is no JSON in UTF-8. Nothing was done.' }
    case TOO_DEEP:
      return {
        code: 'request-invalid',
        detail: `The body nests arrays and objects deeper than ${BODY_LEVELS_MAX} levels, which is the limit. Nothing was done.`,
      }
    default:
      return undefined
  }
}
