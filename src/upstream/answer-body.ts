/**
 * The body of the application's answer while it arrives: whole, where all of it came with its head, or else as a stream.
 *
 * Most answers are one packet: undici reports head, body and end before any other code runs. A stream costs such an
 * answer more than its bytes do, so there is none until somebody asks for one.
 *
 * Owns backpressure towards the connection, and that a cut body never looks like a whole one.
 */

import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'

/** How much may wait for its reader before the connection is paused. */
const WAITING_BYTES_MAX = 64 * 1024

export class AnswerBody {
  readonly #controller: Dispatcher.DispatchController
  /** Until there is a stream. */
  #parts: Buffer[] = []
  #waitingBytes = 0
  #ended = false
  #cut: Error | undefined
  #stream: Readable | undefined
  /** Only long answers are asked for it. */
  #over: PromiseWithResolvers<void> | undefined

  constructor(controller: Dispatcher.DispatchController) {
    this.#controller = controller
  }

  /** A part has arrived. */
  push(part: Buffer): void {
    if (this.#stream !== undefined) {
      if (!this.#stream.push(part)) this.#controller.pause()
      return
    }
    this.#parts.push(part)
    this.#waitingBytes += part.length
    if (this.#waitingBytes >= WAITING_BYTES_MAX) this.#controller.pause()
  }

  /** It has arrived to its end. */
  end(): void {
    this.#ended = true
    this.#over?.resolve()
    this.#stream?.push(null)
  }

  /** No more of it will arrive. */
  cut(reason: Error): void {
    this.#cut = reason
    this.#over?.resolve()
    this.#stream?.destroy(reason)
  }

  /** When no more of it will arrive: it has ended, or was cut. */
  over(): Promise<void> {
    this.#over ??= Promise.withResolvers()
    if (this.#ended || this.#cut !== undefined) this.#over.resolve()
    return this.#over.promise
  }

  /** All of it; undefined where it has not arrived to its end, or is read as a stream already. */
  whole(): Buffer | undefined {
    if (!this.#ended || this.#stream !== undefined) return undefined
    // A copy: a part is a view of all that was read at once, the head included, and who keeps the body would keep that.
    return Buffer.concat(this.#parts)
  }

  /** It from its beginning; fails if the answer is cut. The caller must read it to its end or destroy it. */
  stream(): Readable {
    if (this.#stream !== undefined) return this.#stream
    const stream = new Readable({
      highWaterMark: WAITING_BYTES_MAX,
      read: () => this.#controller.resume(),
      destroy: (error, done) => {
        // To its end: nothing to abort, because its connection takes the next request.
        if (!this.#ended) this.#controller.abort(error ?? new Error('nobody reads the answer any more'))
        done(error)
      },
    })
    // Without a reader a cut must not become an uncaught exception.
    stream.on('error', () => {})
    this.#stream = stream
    for (const part of this.#parts) stream.push(part)
    this.#parts = []
    if (this.#ended) stream.push(null)
    if (this.#cut !== undefined) stream.destroy(this.#cut)
    return stream
  }
}
