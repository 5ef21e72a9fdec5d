/**
 * The order in which everything in a simulated history happens, and its one clock.
 *
 * Owns a queue of events by virtual time; equal times keep the order of scheduling. After each event every settled
 * promise continues before the next event is taken, so a history is a sequence of atomic steps and replays exactly. No
 * real timer is involved.
 */

export type Scheduled = { cancel(): void }

type Entry = { readonly atMs: number; readonly order: number; run: (() => void) | undefined }

export class Scheduler {
  #nowMs = 0
  #order = 0
  readonly #heap: Entry[] = []

  /** Virtual milliseconds since the history began. No actor sees this clock; each has its own. */
  get nowMs(): number {
    return this.#nowMs
  }

  at(atMs: number, run: () => void): Scheduled {
    const entry: Entry = { atMs: Math.max(atMs, this.#nowMs), order: this.#order, run }
    this.#order += 1
    this.#push(entry)
    return {
      cancel: () => {
        entry.run = undefined
      },
    }
  }

  after(delayMs: number, run: () => void): Scheduled {
    return this.at(this.#nowMs + delayMs, run)
  }

  /** Runs every event up to `untilMs`. */
  run(untilMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      // Node empties the microtask queue before the next tick: by then all continuations of promises have run.
      const settle = () => queueMicrotask(() => process.nextTick(step))
      const step = () => {
        try {
          if (this.#runNext(untilMs)) settle()
          else {
            this.#nowMs = Math.max(this.#nowMs, untilMs)
            resolve()
          }
        } catch (cause) {
          reject(cause)
        }
      }
      settle()
    })
  }

  #runNext(untilMs: number): boolean {
    for (;;) {
      const first = this.#heap[0]
      if (first === undefined || first.atMs > untilMs) return false
      this.#pop()
      if (first.run === undefined) continue
      this.#nowMs = first.atMs
      first.run()
      return true
    }
  }

  #push(entry: Entry): void {
    const heap = this.#heap
    let at = heap.length
    heap.push(entry)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!before(entry, heap[parent]!)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = entry
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()!
    const size = heap.length
    if (size === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= size) break
      if (child + 1 < size && before(heap[child + 1]!, heap[child]!)) child += 1
      if (!before(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
  }
}

function before(a: Entry, b: Entry): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)
}
