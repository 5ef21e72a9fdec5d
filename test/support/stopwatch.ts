/**
 * Time that passes only while this process gets to run: for a promise of moments ("within its lease"), which a machine that
 * stands still for a second says nothing about.
 *
 *     using watch = new Stopwatch()
 *     await drained()
 *     expect(watch.ranMs).toBeLessThan(leaseMs)
 */

const TICK_MS = 5

/** What a tick counts for at most: a busy machine is late by less, and one that stands still by more. */
const TICK_MS_MAX = 50

export class Stopwatch implements Disposable {
  #ranMs = 0
  #lastMs = performance.now()
  readonly #ticking = setInterval(() => this.#tick(), TICK_MS)

  /** Since it was made, without what the machine stood still. */
  get ranMs(): number {
    this.#tick()
    return this.#ranMs
  }

  #tick(): void {
    const nowMs = performance.now()
    this.#ranMs += Math.min(nowMs - this.#lastMs, TICK_MS_MAX)
    this.#lastMs = nowMs
  }

  [Symbol.dispose](): void {
    clearInterval(this.#ticking)
  }
}
