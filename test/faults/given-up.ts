/**
 * Clients of a fault run that get no answer and do not come back, and the operator who decides the questions that they
 * leave: asks the application, or requeues or discards the dead letter. After the decision the client does come back.
 *
 * Owns which of them are left, and which decision each gets, from dice of their own: the rest of the traffic throws as
 * without them.
 */

import type { Random } from '../../src/core/clock.ts'
import type { Mode } from './application.ts'
import type { Clients } from './clients.ts'
import { pause } from './fault.ts'
import type { Decision } from './history.ts'
import { monoMs } from './history.ts'
import { LEASE_MS } from './stage.ts'

type Left = {
  readonly of: Decision['of']
  readonly key: string
  readonly sinceMs: number
  readonly generation: number
}

/** Of a value that is reserved and neither completed nor released. */
const RESERVED_MS = 1_000
const LEFT_MAX = 40
/** By then the sweeper has written its letter, if any node can be asked; later the question is dropped. */
const DROPPED_AFTER_MS = 30_000

/** Executed, and its answer is lost; and lost on its way to the application. */
const SCRIPTS: readonly (readonly Mode[])[] = [['reset'], ['drop']]

export class GivenUp {
  readonly #clients: Clients
  readonly #sidecars: number
  readonly #left: Left[] = []
  #generation = 0
  #keys = 0

  constructor(clients: Clients, sidecars: number) {
    this.#clients = clients
    this.#sidecars = sidecars
  }

  /** What nodes have lost for good must not be sent again. */
  forget(): void {
    this.#left.length = 0
    this.#generation += 1
  }

  async giveUp(random: Random, goesOn: () => boolean): Promise<void> {
    while (goesOn()) {
      if (this.#left.length < LEFT_MAX) await this.#leaveOne(random)
      await pause(150 + random.fraction() * 250)
    }
  }

  async operate(random: Random, goesOn: () => boolean): Promise<void> {
    while (goesOn()) {
      const one = this.#left.find(({ of, sinceMs }) => {
        return monoMs() - sinceMs > (of === 'request' ? LEASE_MS : RESERVED_MS)
      })
      if (one !== undefined) {
        this.#left.splice(this.#left.indexOf(one), 1)
        const isOver = await this.#decideOn(one, random)
        const isOld = monoMs() - one.sinceMs > DROPPED_AFTER_MS
        if (!isOver && !isOld && this.#isKnown(one)) this.#left.push(one)
      }
      await pause(50 + random.fraction() * 150)
    }
  }

  #isKnown({ generation }: Left): boolean {
    return generation === this.#generation
  }

  #somewhere(random: Random): number {
    return Math.floor(random.fraction() * this.#sidecars)
  }

  async #leaveOne(random: Random): Promise<void> {
    this.#keys += 1
    const of = random.fraction() < 0.7 ? 'request' : 'reservation'
    const key = `${of === 'request' ? '' : 'r-'}left-${this.#keys}-${random.hex(6)}`
    const script = SCRIPTS[Math.floor(random.fraction() * SCRIPTS.length)] ?? []
    const sidecar = this.#somewhere(random)
    const one = { of, key, sinceMs: monoMs(), generation: this.#generation } as const
    if (of === 'request') await this.#clients.submit({ sidecar, key, script })
    else await this.#clients.reserve(sidecar, key, RESERVED_MS)
    if (this.#isKnown(one)) this.#left.push(one)
  }

  /** @returns whether nothing is left to decide */
  async #decideOn(one: Left, random: Random): Promise<boolean> {
    const { of, key } = one
    const sight = await this.#clients.find(this.#somewhere(random), of, key)
    if (!this.#isKnown(one)) return true
    if (sight === undefined || sight.state === 'live') return false
    if (sight.state === 'completed') return true
    const dice = random.fraction()
    // The application knows nothing of reservations.
    const f =
      of === 'request' && dice < 0.4 ? 'operator-ask' : dice < 0.7 ? 'operator-requeue' : 'operator-discard'
    const letter =
      f === 'operator-ask' ? undefined : await this.#clients.letterOf(this.#somewhere(random), sight)
    if (!this.#isKnown(one)) return true
    if (f !== 'operator-ask' && letter === undefined) return false
    const about = { of, key, sight, ...(letter === undefined ? {} : { letter }) }
    const deciding = this.#clients.decide(f, this.#somewhere(random), about)
    if (random.fraction() < 0.3) await this.#comeBack(one, random)
    const decided = await deciding
    for (let times = 0; times < 2; times += 1) await this.#comeBack(one, random)
    return decided !== undefined
  }

  /** The same request again; a value by somebody else. */
  async #comeBack(one: Left, random: Random): Promise<void> {
    const sidecar = this.#somewhere(random)
    if (!this.#isKnown(one)) return
    const { of, key } = one
    if (of === 'request') {
      await this.#clients.submit({ sidecar, key })
      return
    }
    const held = await this.#clients.reserve(sidecar, key, RESERVED_MS)
    if (held.type !== 'ok' || held.status !== 201) return
    const { id, token } = held
    await this.#clients.end('release', this.#somewhere(random), { key, id, token })
  }
}
