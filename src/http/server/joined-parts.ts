/**
 * A request whose body comes in chunks that are as short as its client likes.
 *
 * Each chunk is an object of some hundred bytes, and a stream limits bytes and not objects: where the application does not read, 64 KiB
 * that wait in chunks of one byte took 80 MB.
 *
 * Owns that the short chunks of one read of the connection are one part. How many bytes may wait is the stream's decision.
 */

import { IncomingMessage } from 'node:http'
import { BodyParts } from '../../core/body-parts.ts'

/** A longer one is more than what it costs besides, and is not copied. */
const SHORT_BYTES = 1024

export class JoinedParts extends IncomingMessage {
  #short: BodyParts | undefined
  #shortBytes = 0

  /** Node's parser calls it for each chunk, and stops reading where the answer is false. */
  override push(part: Buffer | null): boolean {
    if (part === null || part.length >= SHORT_BYTES || !this.#isChunked()) {
      this.#passOn()
      return super.push(part)
    }
    if (this.#short === undefined) {
      this.#short = new BodyParts()
      // Ticks run between two chunks of one read, immediates after it.
      setImmediate(() => this.#passOn())
    }
    this.#short.add(part)
    this.#shortBytes += part.length
    return this.readableLength + this.#shortBytes < this.readableHighWaterMark
  }

  /** Otherwise a read gives one part. */
  #isChunked(): boolean {
    return this.headers['transfer-encoding'] !== undefined
  }

  #passOn(): void {
    if (this.#short === undefined) return
    const joined = this.#short.whole()
    this.#short = undefined
    this.#shortBytes = 0
    if (!this.destroyed) super.push(joined)
  }
}
