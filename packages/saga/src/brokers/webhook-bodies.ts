/**
 * Reads the bodies of requests. Who sends one is known only when the signature over its body is checked, so everyone may
 * send: each body has a largest size and a time, and all that are being read together hold a bounded number of bytes.
 *
 * Owns these limits. Where the bytes run out, the oldest body is given up: an honest sender's is there within
 * milliseconds, and the oldest is that of one who sends slowly.
 */
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../core.ts'

/** The status to answer, or undefined for a sender that has gone. */
export type Unread = { readonly status: 408 | 413 | 503 | undefined }

export type BodyLimits = {
  readonly clock: Clock
  readonly maxBodyBytes: number
  readonly bodyTimeoutMs: number
}

/** So many bodies of the largest size may be held together. */
const bodiesMax = 64

type Reading = { bytes: number; readonly end: (result: Buffer | Unread) => void }

export class Bodies {
  readonly #limits: BodyLimits
  /** Oldest first. */
  readonly #reading = new Set<Reading>()
  #heldBytes = 0

  constructor(limits: BodyLimits) {
    this.#limits = limits
  }

  read(request: IncomingMessage): Promise<Buffer | Unread> {
    const { clock, maxBodyBytes, bodyTimeoutMs } = this.#limits
    return new Promise((resolve) => {
      let kept = Buffer.alloc(0)
      const take = (chunk: Buffer) => {
        const bytes = reading.bytes + chunk.length
        if (bytes > maxBodyBytes) {
          reading.end({ status: 413 })
          return
        }
        kept = withRoom(kept, bytes)
        chunk.copy(kept, reading.bytes)
        reading.bytes = bytes
        this.#heldBytes += chunk.length
        this.#makeRoom()
      }
      const end = (result: Buffer | Unread) => {
        if (!this.#reading.delete(reading)) return
        this.#heldBytes -= reading.bytes
        // The rest is thrown away, so that a sender in the middle of it gets to read the answer.
        request.off('data', take).resume()
        resolve(result)
      }
      const reading: Reading = { bytes: 0, end }
      this.#reading.add(reading)
      const timer = clock.timer(bodyTimeoutMs, () => {
        if (this.#reading.has(reading)) end({ status: 408 })
        else request.destroy()
      })
      request.on('data', take)
      request.once('end', () => {
        timer.cancel()
        end(kept.subarray(0, reading.bytes))
      })
      request.once('error', () => {})
      request.once('close', () => {
        timer.cancel()
        end({ status: undefined })
      })
      if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) end({ status: 413 })
    })
  }

  #makeRoom(): void {
    const most = bodiesMax * this.#limits.maxBodyBytes
    for (const oldest of this.#reading) {
      if (this.#heldBytes <= most) return
      oldest.end({ status: 503 })
    }
  }
}

/** Chunks are copied: as an object of its own one of a single byte takes hundreds, and the sender chooses how it cuts its body. */
function withRoom(kept: Buffer<ArrayBuffer>, bytes: number): Buffer<ArrayBuffer> {
  if (bytes <= kept.length) return kept
  const larger = Buffer.alloc(Math.max(bytes, 2 * kept.length))
  kept.copy(larger)
  return larger
}
