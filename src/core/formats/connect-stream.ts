/**
 * The status of a stream of Connect. That of HTTP is 200 also where the call failed; of its other calls HTTP says it.
 *
 * It is the error in the last frame, by the name of a code of gRPC.
 *
 * Source: connectrpc.com/docs/protocol, "Streaming RPCs" and "Error codes".
 */

import { linesOf } from './header-lines.ts'
import { type FramedAnswer, framesOf, lastFrame } from './length-prefixed.ts'

const TYPE = /^application\/connect\+[a-z0-9.-]+\s*(;|$)/i
const END_OF_STREAM = 0x02

/** By their number in gRPC, from 1 on. */
const CODES: readonly unknown[] = [
  'canceled',
  'unknown',
  'invalid_argument',
  'deadline_exceeded',
  'not_found',
  'already_exists',
  'permission_denied',
  'resource_exhausted',
  'failed_precondition',
  'aborted',
  'out_of_range',
  'unimplemented',
  'internal',
  'unavailable',
  'data_loss',
  'unauthenticated',
]
const OK = 0
const UNKNOWN = 2

/** The code of gRPC; undefined where the answer is no stream of Connect, or does not say. */
export function connectStreamStatus(answer: FramedAnswer): number | 'broken_off' | undefined {
  if (!TYPE.test(linesOf(answer.headers, 'content-type')[0] ?? '')) return undefined
  const frames = framesOf(answer)
  if (frames === undefined) return undefined
  const end = lastFrame(END_OF_STREAM, frames)
  if (end === 'broken_off') return end
  return end === 'compressed' ? undefined : statusIn(end.toString('utf8'))
}

function statusIn(json: string): number | undefined {
  let end: unknown
  try {
    end = JSON.parse(json)
  } catch {
    return undefined
  }
  const { error } = (end ?? {}) as { readonly error?: { readonly code?: unknown } | null }
  if (error === undefined || error === null) return OK
  const index = CODES.indexOf(error.code)
  return index === -1 ? UNKNOWN : index + 1
}
