/**
 * A gateway's call in the trace of the request that it is about: the check is a span of the trace that the gateway hands on, like
 * the application's own, and what it does on the nodes stands below it.
 *
 * Owns where the span begins and ends. Its name has the method and the route of the request in question.
 */

import { linesOf } from '../../core/formats/header-lines.ts'
import type { Tracing } from '../../core/tracing.ts'
import type { Answer } from '../message/answer.ts'
import type { AdmittedRequest } from '../request/admission.ts'

/** @param route its name, or the path of a call; undefined where no route matches */
export async function tracedCheck<T extends { readonly answer: Answer } | undefined>(
  { method, headers, httpVersion }: AdmittedRequest,
  route: string | undefined,
  tracing: Tracing,
  work: () => Promise<T>,
): Promise<T> {
  const header = (name: string) => linesOf(headers, name)[0]
  const trace = tracing.request({ method, route, protocolVersion: httpVersion, header })
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
