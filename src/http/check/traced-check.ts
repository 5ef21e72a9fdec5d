/**
 * A gateway's call in the trace of the request that it is about: the check is a span of the trace that the gateway hands on, like
 * the application's own, and what it does on the nodes stands below it.
 *
 * Owns where the span begins and ends. Its name has the method and the route of the request in question.
 */

import type { TracedRequest, Tracing } from '../../core/tracing.ts'
import type { Answer } from '../message/answer.ts'

export async function tracedCheck<T extends { readonly answer: Answer } | undefined>(
  traced: TracedRequest,
  tracing: Tracing,
  work: () => Promise<T>,
): Promise<T> {
  const trace = tracing.request(traced)
  return trace.run(async () => {
    let status: number | undefined
    try {
      const done = await work()
      status = done?.answer.status
      return done
    } finally {
      trace.ended(status)
    }
  })
}
