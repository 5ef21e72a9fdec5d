/**
 * What every subscriber does the same way: deliveries under way at once, each handled, told to the broker and never twice
 * at the same time; faults reported and survived; an end that waits for what is under way.
 *
 * Owns the count, the verdict on what is not ours, and the order of beginning and ending. How a broker hands messages out
 * and is told of verdicts is its adapter's ({@link Session}).
 */

import { keepProcessAlive } from '../ambient.ts'
import type { Clock } from '../core.ts'
import { pause } from '../core.ts'
import { BrokerUnavailableError } from '../errors.ts'
import type { InboundMessage, MessageSubscriber, SubscribeOptions, Verdict } from '../messages.ts'

type Handle = (message: InboundMessage) => Promise<Verdict>

/** One subscription as its broker's adapter sees it. */
export interface Session {
  /** Connects, declares, begins to take messages. What it throws is told as "out of reach". */
  begin(): Promise<void>
  /** Takes no more. Deliveries under way go on, and can still be acknowledged. */
  stop(): Promise<void>
  /** Nothing is under way any more, or it never began. */
  leave(): Promise<void>
}

export function subscriberOf(broker: string, open: (deliveries: Deliveries) => Session): MessageSubscriber {
  return {
    async subscribe(handle, options) {
      const deliveries = new Deliveries(handle, options)
      const session = open(deliveries)
      const release = keepProcessAlive()
      try {
        await session.begin()
      } catch (error) {
        // Why it could not begin matters more than what goes wrong while it is given up.
        await session.leave().catch(() => {})
        release()
        throw new BrokerUnavailableError(`${broker} is out of reach`, { cause: error })
      }
      return {
        async close() {
          deliveries.stop()
          await session.stop()
          await deliveries.allEnded()
          await session.leave()
          release()
        },
      }
    },
  }
}

export class Deliveries {
  readonly concurrency: number
  readonly report: (error: unknown) => void
  readonly #handle: Handle
  readonly #running = new Map<unknown, Promise<void>>()
  #stopped = false

  constructor(handle: Handle, { concurrency, onError }: SubscribeOptions) {
    this.concurrency = concurrency
    this.report = onError
    this.#handle = handle
  }

  get stopped(): boolean {
    return this.#stopped
  }

  stop(): void {
    this.#stopped = true
  }

  /** How many more may begin now. */
  get room(): number {
    return this.concurrency - this.#running.size
  }

  get underWay(): readonly unknown[] {
    return [...this.#running.keys()]
  }

  /** Nothing where a delivery of the same key is under way: the broker has handed out again what we still hold. */
  begin(key: unknown, deliver: () => Promise<void>): void {
    if (this.#running.has(key)) return
    // What fails here was not acknowledged, and comes again.
    const done = deliver()
      .catch(this.report)
      .finally(() => this.#running.delete(key))
    this.#running.set(key, done)
  }

  /** What is not ours is acknowledged: it would come for ever. */
  async verdictOn(message: InboundMessage | undefined): Promise<Verdict> {
    return message === undefined ? { kind: 'ack' } : this.#handle(message)
  }

  /** undefined where nothing is under way. */
  whenOneEnds(): Promise<void> | undefined {
    return this.#running.size === 0 ? undefined : Promise.race(this.#running.values())
  }

  async untilRoom(): Promise<void> {
    while (this.room <= 0) await this.whenOneEnds()
  }

  async allEnded(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  /** Again and again until stopped; after a fault, which is reported, only when `pauseMs` have passed. */
  async repeat(clock: Clock, pauseMs: number, step: () => Promise<void>): Promise<void> {
    while (!this.#stopped) {
      try {
        await step()
      } catch (error) {
        if (this.#stopped) return
        this.report(error)
        await pause(clock, pauseMs)
      }
    }
  }
}
