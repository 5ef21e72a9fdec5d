/**
 * How many bytes of bodies this process holds at once, over the proxy and the listeners for gateways and Envoy.
 *
 * A container has a memory limit, and the kernel kills a process that goes beyond it, with every request under way. So bodies have a
 * budget: a request whose body does not fit any more is refused, and an answer that does not fit is passed on without being kept.
 * Requests may fill three quarters of it, so that a flood of them leaves room for the answers of those that were admitted.
 *
 * Owns the count. What is streamed is not counted: it holds a few buffers, whatever its length; an answer that turned out too long to
 * be kept holds its beginning as well, until that has been passed on.
 */

export interface BodyMemory {
  readonly limitBytes: number
  readonly usedBytes: number
  /** Disposing it returns all that it holds. */
  hold(): HeldBody
}

export interface HeldBody extends Disposable {
  /** What request bodies may fill. */
  readonly requestsLimitBytes: number
  /** Whether a request body of this length could be held now. */
  fits(bytes: number): boolean
  /** More of a request body arrived. False: it does not fit, and nothing was counted. */
  take(bytes: number): boolean
  /** More of an answer arrived. False: it does not fit, and nothing was counted. */
  keep(bytes: number): boolean
  /** These bytes are in memory already: counted, whether they fit or not. */
  occupy(bytes: number): void
}

/** The part of the budget that request bodies may fill. */
export const REQUESTS_SHARE = 3 / 4

/** @param onFull called for each request that is refused, and each answer that is not kept */
export function createBodyMemory(
  limitBytes: number,
  onFull: (of: 'request' | 'answer') => void = () => {},
): BodyMemory {
  const requestsLimitBytes = Math.floor(limitBytes * REQUESTS_SHARE)
  let usedBytes = 0

  function isWithin(bytes: number, upToBytes: number, of: 'request' | 'answer'): boolean {
    if (usedBytes + bytes <= upToBytes) return true
    onFull(of)
    return false
  }

  /** What one request holds: there are two for each, so it is a class and not seven functions. */
  class Held implements HeldBody {
    #bytes = 0

    get requestsLimitBytes(): number {
      return requestsLimitBytes
    }

    fits(bytes: number): boolean {
      return isWithin(bytes, requestsLimitBytes, 'request')
    }

    take(bytes: number): boolean {
      const fits = isWithin(bytes, requestsLimitBytes, 'request')
      if (fits) this.occupy(bytes)
      return fits
    }

    keep(bytes: number): boolean {
      const fits = isWithin(bytes, limitBytes, 'answer')
      if (fits) this.occupy(bytes)
      return fits
    }

    occupy(bytes: number): void {
      this.#bytes += bytes
      usedBytes += bytes
    }

    [Symbol.dispose](): void {
      usedBytes -= this.#bytes
      this.#bytes = 0
    }
  }

  return {
    limitBytes,
    get usedBytes() {
      return usedBytes
    },
    hold: () => new Held(),
  }
}
