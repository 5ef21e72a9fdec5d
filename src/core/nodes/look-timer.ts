/**
 * When the nodes of one cluster are looked at: one timer for all of them, so that an idle process wakes up once.
 *
 * Owns the timer, and which nodes are due: those whose look before is over. What a look does is its user's.
 */

import type { Timer } from '../clock.ts'
import type { DriverOptions } from './cluster-nodes.ts'
import { nextLookMs } from './glance.ts'
import type { Member } from './member.ts'

/** A change of role or policy counts for no longer than two looks. */
const INSPECT_EVERY_MS = 1_000

export type LookTimerPorts = Pick<DriverOptions, 'clock' | 'random' | 'inspectEveryMs'> & {
  /** Never rejects. */
  readonly look: (member: Member) => Promise<void>
  /** Whether the last looks say that the next ones may be further apart. */
  readonly glancesAreEnough: () => boolean
}

export class LookTimer {
  readonly #ports: LookTimerPorts
  readonly #due = new Set<Member>()
  #timer: Timer | undefined
  #closed = false

  constructor(ports: LookTimerPorts) {
    this.#ports = ports
  }

  /** The node is looked at from now on. */
  add(member: Member): void {
    this.#due.add(member)
  }

  start(): void {
    this.#arm(false)
  }

  close(): void {
    this.#closed = true
    this.#timer?.cancel()
  }

  #arm(glancesAreEnough: boolean): void {
    if (this.#closed) return
    const { clock, random, inspectEveryMs = INSPECT_EVERY_MS } = this.#ports
    this.#timer?.cancel()
    const delayMs = nextLookMs(inspectEveryMs, glancesAreEnough, random.fraction())
    this.#timer = clock.timer(delayMs, () => void this.#lookOnDue())
  }

  async #lookOnDue(): Promise<void> {
    const { look, glancesAreEnough } = this.#ports
    const looks = [...this.#due].map((member) => look(member).finally(() => this.#due.add(member)))
    this.#due.clear()
    // At once: a node that is slow to answer holds up no other's look.
    this.#arm(false)
    const next = this.#timer
    await Promise.all(looks)
    if (this.#timer === next && glancesAreEnough()) this.#arm(true)
  }
}
