/**
 * For Express 4 and 5: `app.use(fencepostErrors())` after the routes, and a refusal that a route throws becomes the right answer.
 *
 *     app.post('/orders/:id/payment', async (request, response) => {
 *       response.status(201).json(await fencepost.withReservation(`payment:${request.params.id}`, pay))
 *     })
 *     app.use(fencepostErrors())
 *
 * Express 4 hands on only what a route gives to `next`: `pay().catch(next)`.
 */

import { answerTo } from './http-answers.ts'

/** As much of Express' response as is used, so that nobody needs its types. */
export type ExpressResponse = {
  readonly headersSent: boolean
  status(code: number): unknown
  set(headers: Record<string, string>): unknown
  json(body: unknown): unknown
  end(): unknown
}

/** Express knows a handler of errors by its four parameters. */
export function fencepostErrors() {
  return (
    error: unknown,
    _request: unknown,
    response: ExpressResponse,
    next: (error?: unknown) => void,
  ): void => {
    const answer = response.headersSent ? undefined : answerTo(error)
    if (answer === undefined) {
      next(error)
      return
    }
    response.status(answer.status)
    response.set({ ...answer.headers })
    if ('body' in answer) response.json(answer.body)
    else response.end()
  }
}
