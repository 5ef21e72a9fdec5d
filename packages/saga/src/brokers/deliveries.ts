/**
 * What all subscribers share: concurrent deliveries, each handled, acknowledged and never handled twice at the same
 * time; faults reported and survived; a close that waits for deliveries in flight.
 *
 * Owns the count, and the order of start and stop. How a broker hands out
 * messages and learns verdicts is its adapter's ({@link Session}).
 */

import { keepProcessAlive } from '../ambient.ts'
import type { Clock } from '../core.ts'
import { pause } from '../core.ts'
import { BrokerAccessRefusedError, BrokerUnavailableError } from '../errors.ts'
import type { Delivery, MessageSubscriber, SubscribeOptions, Verdict } from '../messages.ts'

type Handle = (delivery: Delivery) => Promise<Verdict>

/** One subscription, implemented by the broker's adapter. */
export interface Session {
  /** Connects, declares, begins to take messages. What it throws is "out of reach", unless the broker refused it. */
  begin(): Promise<void>
  /** Takes no more. Deliveries in flight go on, and can still be acknowledged. */
  stop(): Promise<void>
  /** Called when no delivery is in flight, or `begin` failed. */
  leave(): Promise<void>
}

/** `refusalOf`: what the broker said, if it answered, as an error with a name of its own. */
export function subscriberOf(
  broker: string,
  open: (deliveries: Deliveries) => Session,
  refusalOf: (error: unknown) => Error | undefined = (error) => accessRefusal(broker, error),
): MessageSubscriber {
  return {
    async subscribe(handle, options) {
      const deliveries = new Deliveries(handle, options)
      const session = open(deliveries)
      const release = keepProcessAlive()
      try {
        await session.begin()
      } catch (error) {
        // Why `begin` failed matters more than a failing cleanup.
        await session.leave().catch(() => {})
        release()
        throw refusalOf(error) ?? new BrokerUnavailableError(`${broker} is out of reach`, { cause: error })
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

/** Of Redis (WRONGPASS, NOAUTH, NOPERM) and NATS (Authorization Violation). */
export function accessRefusal(broker: string, error: unknown): Error | undefined {
  const text = String((error as Error)?.message)
  if (!/^(WRONGPASS|NOAUTH|NOPERM)|authorization violation/i.test(text)) return undefined
  return new BrokerAccessRefusedError(
    `${broker} refuses the user (${text}); check user and password of the connection, and the rights of the user`,
    { cause: error },
  )
}

export class Deliveries {
  readonly concurrency: number
  readonly report: (error: unknown) => void
  readonly #handle: Handle
  readonly #running = new Map<unknown, Promise<void>>()
  /**
   * Those who wait for an end, each gone from here with its wait. A race with a promise that lives as long as a delivery
   * or the subscription would leave a reaction there, for every poll.
   */
  readonly #waiting = new Set<() => void>()
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
    this.#wake()
  }

  /** How many more may begin now. */
  get room(): number {
    return this.concurrency - this.#running.size
  }

  get underWay(): readonly unknown[] {
    return [...this.#running.keys()]
  }

  /** Does nothing while a delivery of the same key is in flight: the broker redelivered what we still hold. */
  begin(key: unknown, deliver: () => Promise<void>): void {
    if (this.#running.has(key)) return
    // A failed delivery is not acknowledged, so the broker redelivers it.
    const done = deliver()
      .catch(this.report)
      .finally(() => {
        this.#running.delete(key)
        this.#wake()
      })
    this.#running.set(key, done)
  }

  verdictOn(delivery: Delivery): Promise<Verdict> {
    return this.#handle(delivery)
  }

  async untilRoom(): Promise<void> {
    while (this.room <= 0) await new Promise<void>((resolve) => this.#waiting.add(resolve))
  }

  /** Resolves after `delayMs`, or as soon as a delivery ends or no more are to be taken. */
  pause(clock: Clock, delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        timer.cancel()
        this.#waiting.delete(end)
        resolve()
      }
      const timer = clock.timer(delayMs, end)
      if (this.#stopped) end()
      else this.#waiting.add(end)
    })
  }

  #wake(): void {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const end of waiting) end()
  }

  async allEnded(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  /** Repeats until stopped; reports a fault, and pauses for `pauseMs` after it. */
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
