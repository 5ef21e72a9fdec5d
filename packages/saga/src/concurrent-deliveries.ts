/**
 * Which messages are in progress beside each other in this process: any number, or one that has to be alone.
 *
 * A process that dies takes all its messages with it, and nothing tells which of them killed it. One whose deliveries
 * came to no end before is therefore handled alone: if the process dies again, it was this one.
 *
 * First come, first served, so nobody waits for ever while others come. Whoever is next waits `patienceMs` at most, then
 * goes in beside those who are still at it: a handler that waits for another message of its own process would otherwise
 * stand still.
 */
import type { Clock, Timer } from './core.ts'

/** Ends the stay. */
type Leave = () => void

type Waiting = {
  readonly alone: boolean
  readonly clock: Clock
  readonly letIn: () => void
  patience?: Timer
}

export class ConcurrentDeliveries {
  readonly #patienceMs: number
  readonly #line: Waiting[] = []
  #inside = 0
  /** Of those inside, the ones that have to be alone. */
  #loners = 0

  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs
  }

  async enter(clock: Clock, alone: boolean): Promise<Leave> {
    if (this.#line.length === 0 && this.#fits(alone)) return this.#begin(alone)
    const turn = Promise.withResolvers<Leave>()
    this.#line.push({ alone, clock, letIn: () => turn.resolve(this.#begin(alone)) })
    this.#letIn()
    return turn.promise
  }

  #fits(alone: boolean): boolean {
    return alone ? this.#inside === 0 : this.#loners === 0
  }

  #begin(alone: boolean): Leave {
    this.#inside += 1
    if (alone) this.#loners += 1
    return () => {
      this.#inside -= 1
      if (alone) this.#loners -= 1
      this.#letIn()
    }
  }

  #letIn(): void {
    for (let next = this.#line[0]; next !== undefined; next = this.#line[0]) {
      if (!this.#fits(next.alone)) {
        next.patience ??= next.clock.timer(this.#patienceMs, () => {
          this.#admitNext()
          this.#letIn()
        })
        return
      }
      this.#admitNext()
    }
  }

  #admitNext(): void {
    const next = this.#line.shift()
    next?.patience?.cancel()
    next?.letIn()
  }
}

/** One for all consumers, because they die together. Longer than most handlers work, and shorter than brokers wait. */
export const inThisProcess = new ConcurrentDeliveries(60_000)
