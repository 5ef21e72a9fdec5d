/**
 * For Fastify 4 and 5: `app.register(fencepostErrors)`, and a refusal that a route throws becomes the right answer. Every other
 * error goes on to the error handler that the application had set before, or to Fastify's own.
 */

import { answerTo } from './http-answers.ts'

type ErrorHandler = (error: unknown, request: never, reply: never) => unknown

/** As much of Fastify as is used, so that nobody needs its types. */
export type FastifyLike = {
  readonly errorHandler: ErrorHandler
  setErrorHandler(handler: (error: unknown, request: unknown, reply: FastifyReplyLike) => unknown): unknown
}

export type FastifyReplyLike = {
  code(status: number): unknown
  headers(headers: Record<string, string>): unknown
  send(body?: unknown): unknown
}

async function register(app: FastifyLike): Promise<void> {
  const before = app.errorHandler
  app.setErrorHandler((error, request, reply) => {
    const answer = answerTo(error)
    if (answer === undefined) return before.call(app, error, request as never, reply as never)
    reply.code(answer.status)
    reply.headers({ ...answer.headers })
    if (!('body' in answer)) return reply.send()
    // A result may be a string or null, which Fastify would not send as JSON.
    if (answer.headers['Content-Type'] === undefined)
      reply.headers({ 'Content-Type': 'application/json; charset=utf-8' })
    return reply.send(JSON.stringify(answer.body))
  })
}

/** The same that `fastify-plugin` does: the handler is of the application, and not of a scope of its own. */
export const fencepostErrors = Object.assign(register, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: '@fencepost/client',
})
