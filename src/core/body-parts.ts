/**
 * The parts of a body that is kept until it is whole.
 *
 * Whoever sends a body chooses how it is cut. A part is an object, and perhaps a view of all that was read with it: one of a single byte
 * takes hundreds. So small parts are joined as they come, and what is kept takes little more than its bytes.
 *
 * Owns nothing of limits: a caller counts bytes before it adds them.
 */

/** So many are kept as they came. */
const FRESH_MAX = 256
/** Fewer bytes than this together: they are joined. Copying large ones would gain nothing. */
const SMALL_BYTES = FRESH_MAX * 1024

export class BodyParts {
  readonly #settled: Buffer[] = []
  #fresh: Buffer[] = []
  #freshBytes = 0

  add(part: Buffer): void {
    this.#fresh.push(part)
    this.#freshBytes += part.length
    if (this.#fresh.length < FRESH_MAX) return
    if (this.#freshBytes < SMALL_BYTES) this.#settled.push(Buffer.concat(this.#fresh, this.#freshBytes))
    else this.#settled.push(...this.#fresh)
    this.#fresh = []
    this.#freshBytes = 0
  }

  /** In their order, however they are cut. The caller may take them out of the list. */
  list(): Buffer[] {
    return [...this.#settled, ...this.#fresh]
  }

  /** A copy. */
  whole(): Buffer {
    return Buffer.concat(this.list())
  }
}
