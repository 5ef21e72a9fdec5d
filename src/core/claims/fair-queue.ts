/**
 * Lets those who wait for one record claim it one after the other, in the order in which they came, over all sidecars.
 *
 *   enter → (order not known yet) → waiting → first: called, claims again and again → leave
 *                                      └─ order can't be known (too few nodes): claims as everybody does
 *
 * Owns the waiters of this process, one queue a key, and the asking of the nodes: once for all waiters of a key, and soon
 * again while another process is first. Nothing rests on it: whoever believes that it is first claims, and the claim
 * decides. A process that died stands in the way until its entry is {@link ALIVE_MS} old; with fewer nodes than a
 * majority no ticket is waited for.
 */

import type { Clock, Random, Timer } from '../clock.ts'
import { majorityOf } from '../units.ts'
import { isBefore, type QueueReply, type WaitQueues } from './wait-queue.ts'

/** How long a process that died, or is cut off, keeps its place. */
export const ALIVE_MS = 2_000

/** Between two looks at a queue in which another process is first. Half of it is what a handing-over costs on average. */
const LOOK_EVERY_MS = 30

/** While one of ours is first, or the nodes can't be asked: only so that our entry stays. */
const UPDATE_EVERY_MS = 400

/** A place in the queue. Disposing leaves it. */
export type Ticket = Disposable & {
  /** Resolves when this one is first, or when the order can't be known. */
  untilCalled(): Promise<void>
  /** It is known to be first; false: claim as one of many. */
  readonly called: boolean
  /** Resolves when what it waits for was given back in this process. */
  readonly freed: Promise<void>
  /** There is nothing to wait for any more: everybody who waits now may claim. */
  callAll(): void
}

export type FairQueue = {
  /** Whether a request of this process waits for it: then whoever comes goes behind, and does not claim at once. */
  isWaitedFor(key: string): boolean
  /** A place at the end. */
  enter(key: string): Ticket
  /** It was given back by this process. */
  freed(key: string): void
}

export type FairQueuePorts = {
  readonly waitQueues: WaitQueues
  readonly clock: Clock
  readonly random: Random
}

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

/** One who waits. `number` is 0 until it has drawn one. */
type Waiter = { number: number; readonly woken: PromiseWithResolvers<void>[] }

/** The waiters of this process for one key. */
class KeyQueue {
  readonly #key: string
  readonly #process: string
  readonly #onEmpty: () => void
  readonly #ports: FairQueuePorts
  readonly #needed: number
  /** In the order in which they came; those with a number first. */
  readonly #waiting: Waiter[] = []
  #openTo = 0
  /** Everybody who waits at the next look is to be called. */
  #opening = false
  /** Of the last look; undefined before the first, and where too few nodes replied. */
  #seen: readonly QueueReply[] | undefined
  #blind = false
  #asking = false
  #changed = false
  #next: Timer | undefined
  #freed = Promise.withResolvers<void>()

  /** @param onEmpty the last of them has left */
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

  /** Asks now, or once more where a reply is under way that does not know of the change. */
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

  /** Sends our entry to the nodes, and takes from their replies the numbers of those who have none yet. */
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
