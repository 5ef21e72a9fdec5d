/**
 * Lets the waiters for one record claim it in order of arrival, over all sidecars.
 *
 *   enter → (order not known yet) → waiting → first: called, claims again and again → leave
 *                                      └─ order can't be known (too few nodes): claims as one of many
 *
 * Owns the waiters of this process, one queue per key, and the requests to the nodes: one for all waiters of a key,
 * repeated soon while another process is first. No promise rests on it: a waiter that believes that it is first claims,
 * and the claim decides. A dead process blocks the queue until its entry is {@link ALIVE_MS} old; with fewer nodes than
 * a majority no waiter waits for its ticket.
 */

import type { Clock, Random, Timer } from '../clock.ts'
import { majorityOf } from '../units.ts'
import { isBefore, type QueueReply, type WaitQueues } from './wait-queue.ts'

/** How long a process that died, or is cut off, keeps its slot. */
export const ALIVE_MS = 2_000

/** Between two looks at a queue in which another process is first. On average a handover costs half of it. */
const LOOK_EVERY_MS = 30

/** While one of ours is first, or the nodes can't be reached: only to keep our entry. */
const UPDATE_EVERY_MS = 400

/** A slot in the queue. Disposing leaves it. */
export type Ticket = Disposable & {
  /** Resolves when this one is first, or when the order can't be known. */
  untilCalled(): Promise<void>
  /** It is known to be first; false: claim as one of many. */
  readonly called: boolean
  /** Resolves when this process released what it waits for. */
  readonly freed: Promise<void>
  /** The wait is over for all: every current waiter may claim. */
  callAll(): void
}

export type FairQueue = {
  /** Whether a request of this process waits for it: then a newcomer goes behind, and does not claim at once. */
  isWaitedFor(key: string): boolean
  /** A slot at the end. */
  enter(key: string): Ticket
  /** This process released it. */
  freed(key: string): void
}

type FairQueuePorts = { readonly waitQueues: WaitQueues; readonly clock: Clock; readonly random: Random }

export function createFairQueue(ports: FairQueuePorts): FairQueue {
  const process = ports.random.hex(8)
  const keys = new Map<string, KeyQueue>()
  return {
    isWaitedFor: (key) => keys.has(key),
    enter: (key) => {
      const queue = keys.get(key) ?? new KeyQueue(key, process, () => keys.delete(key), ports)
      keys.set(key, queue)
      return queue.enter()
    },
    freed: (key) => keys.get(key)?.free(),
  }
}

/** One waiter. `number` is 0 until it has drawn one. */
type Waiter = { number: number; readonly woken: PromiseWithResolvers<void>[] }

/** The waiters of this process for one key. */
class KeyQueue {
  readonly #key: string
  readonly #process: string
  readonly #onEmpty: () => void
  readonly #ports: FairQueuePorts
  readonly #needed: number
  /** In order of arrival; those with a number first. */
  readonly #waiting: Waiter[] = []
  #openTo = 0
  /** Call every waiter at the next look. */
  #opening = false
  /** Of the last look; undefined before the first, and where too few nodes replied. */
  #seen: readonly QueueReply[] | undefined
  #blind = false
  #asking = false
  #changed = false
  #next: Timer | undefined
  #freed = Promise.withResolvers<void>()

  /** @param onEmpty called when the last waiter has left */
  constructor(key: string, process: string, onEmpty: () => void, ports: FairQueuePorts) {
    this.#key = key
    this.#process = process
    this.#onEmpty = onEmpty
    this.#ports = ports
    this.#needed = majorityOf(ports.waitQueues.nodeCount)
  }

  enter(): Ticket {
    const one: Waiter = { number: 0, woken: [] }
    const isFirst = () => this.#isFirst(one)
    const freed = () => this.#freed.promise
    this.#waiting.push(one)
    this.#ask()
    return {
      untilCalled: () => {
        const woken = Promise.withResolvers<void>()
        if (this.#blind || isFirst()) woken.resolve()
        else one.woken.push(woken)
        return woken.promise
      },
      get called() {
        return isFirst()
      },
      get freed() {
        return freed()
      },
      callAll: () => this.#callAll(),
      [Symbol.dispose]: () => this.#leave(one),
    }
  }

  free(): void {
    this.#freed.resolve()
    this.#freed = Promise.withResolvers()
  }

  #callAll(): void {
    this.#openTo = Math.max(this.#openTo, ...this.#waiting.map(({ number }) => number))
    this.#opening = true
    this.#wake()
    this.#ask()
  }

  #leave(one: Waiter): void {
    const at = this.#waiting.indexOf(one)
    if (at < 0) return
    this.#waiting.splice(at, 1)
    for (const { resolve } of one.woken.splice(0)) resolve()
    if (this.#waiting.length === 0) this.#onEmpty()
    this.#wake()
    this.#ask()
  }

  #isFirst(one: Waiter): boolean {
    if (this.#seen === undefined || one.number === 0) return false
    if (one.number <= this.#openTo) return true
    if (one !== this.#waiting[0]) return false
    const own = { number: one.number, process: this.#process }
    const before = this.#seen.filter(({ ahead }) => ahead === undefined || isBefore(own, ahead))
    return before.length >= this.#needed
  }

  #wake(): void {
    for (const one of this.#waiting)
      if (this.#blind || this.#isFirst(one)) for (const { resolve } of one.woken.splice(0)) resolve()
  }

  /** Sends now, or once more where a request under way predates the change. */
  #ask(): void {
    this.#changed = true
    if (this.#asking) return
    this.#next?.cancel()
    this.#asking = true
    void this.#look()
  }

  async #look(): Promise<void> {
    while (this.#changed) {
      this.#changed = false
      await this.#update()
      this.#wake()
    }
    this.#asking = false
    if (this.#waiting.length === 0) return
    const { clock, random } = this.#ports
    const atEase = this.#blind || (this.#waiting[0] !== undefined && this.#isFirst(this.#waiting[0]))
    const everyMs = (atEase ? UPDATE_EVERY_MS : LOOK_EVERY_MS) * (0.75 + random.fraction() / 2)
    this.#next = clock.timer(everyMs, () => this.#ask())
  }

  /** Sends our entry to the nodes, and numbers the waiters that have none yet from their replies. */
  async #update(): Promise<void> {
    const drawing = this.#waiting.filter(({ number }) => number === 0)
    const first = this.#waiting[0]?.number ?? 0
    const last = this.#waiting.findLast(({ number }) => number > 0)?.number ?? 0
    const replies = await this.#ports.waitQueues.update(this.#key, {
      process: this.#process,
      first,
      last,
      draws: drawing.length,
      openTo: this.#openTo,
      aliveMs: ALIVE_MS,
    })
    this.#blind = replies.length < this.#needed
    this.#seen = this.#blind ? undefined : replies
    if (this.#seen === undefined) return
    this.#openTo = Math.max(this.#openTo, ...replies.map((reply) => reply.openTo))
    let drawn = Math.max(last, ...replies.map(({ highest }) => highest))
    for (const one of drawing) {
      drawn += 1
      one.number = drawn
    }
    if (!this.#opening) return
    this.#openTo = Math.max(this.#openTo, drawn)
    this.#opening = false
    this.#changed = true
  }
}
