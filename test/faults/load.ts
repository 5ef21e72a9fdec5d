/**
 * The traffic of a fault run: new requests, duplicates of recent ones at other sidecars, other content under a known
 * key, and reservations of a few values, in an order that the seed decides.
 */

import type { Random } from '../../src/core/clock.ts'
import { seededRandom } from '../support/seeded-random.ts'
import type { Mode } from './application.ts'
import type { Clients } from './clients.ts'
import { pause } from './fault.ts'
import { LEASE_MS } from './stage.ts'

const WORKERS = 6
/** Duplicates are of the latest requests. */
const RECENT_MAX = 120
/** The checker of reservations searches: after this many calls a value is replaced. */
const CALLS_PER_VALUE = 60

/** The share of reads after a call that may have changed the state. */
const LOOKS = 0.3

type Known = { readonly key: string; readonly script: readonly Mode[] }

export class Load {
  readonly #clients: Clients
  readonly #sidecars: number
  readonly #seed: number
  readonly #names: Random
  readonly #recent: Known[] = []
  readonly #workers: Promise<void>[] = []
  /** Keys of all requests that were recorded and acknowledged. */
  readonly recorded: string[] = []
  #running = false
  #keys = 0
  #calls = 0
  #generation = 0

  constructor(clients: Clients, sidecars: number, seed: number) {
    this.#clients = clients
    this.#sidecars = sidecars
    this.#seed = seed
    this.#names = seededRandom(seed)
  }

  freshKey(): string {
    this.#keys += 1
    return `key-${this.#keys}-${this.#names.hex(6)}`
  }

  recentKeys(count: number): readonly string[] {
    return this.recorded.slice(-count)
  }

  /** Keys that nodes lost for good must not be sent again. */
  forgetEarlierKeys(): void {
    this.#recent.length = 0
    this.recorded.length = 0
    this.#generation += 1
  }

  start(): void {
    this.#running = true
    // Each worker has its own dice: the interleaving of workers changes none of their throws.
    for (let worker = 0; worker < WORKERS; worker += 1)
      this.#workers.push(this.#work(seededRandom(this.#seed + 1 + worker)))
  }

  async stop(): Promise<void> {
    this.#running = false
    await Promise.all(this.#workers.splice(0))
  }

  async #work(random: Random): Promise<void> {
    while (this.#running) {
      const dice = random.fraction()
      if (dice < 0.3 || this.#recent.length === 0) await this.#fresh(random)
      else if (dice < 0.86) await this.#duplicate(random)
      else if (dice < 0.89) await this.#otherContent(random)
      else await this.#reservation(random)
      await pause(5 + random.fraction() * 25)
    }
  }

  #somewhere(random: Random): number {
    return Math.floor(random.fraction() * this.#sidecars)
  }

  async #fresh(random: Random): Promise<void> {
    const slow = random.fraction() < 0.15
    const script: readonly Mode[] = slow ? [`slow:${Math.floor(50 + random.fraction() * 500)}`] : []
    const known = { key: this.freshKey(), script }
    this.#recent.push(known)
    if (this.#recent.length > RECENT_MAX) this.#recent.shift()
    await this.#send(known, random)
  }

  async #duplicate(random: Random): Promise<void> {
    const known = this.#recent[Math.floor(random.fraction() * this.#recent.length)]
    if (known !== undefined) await this.#send(known, random)
  }

  async #send({ key, script }: Known, random: Random): Promise<void> {
    const generation = this.#generation
    const answer = await this.#clients.submit({ sidecar: this.#somewhere(random), key, script })
    const created = answer.type === 'ok' && answer.says === 'created'
    if (created && generation === this.#generation) this.recorded.push(key)
  }

  async #otherContent(random: Random): Promise<void> {
    const known = this.#recent[Math.floor(random.fraction() * this.#recent.length)]
    if (known === undefined) return
    await this.#clients.submit({
      sidecar: this.#somewhere(random),
      key: known.key,
      content: 'other',
      script: known.script,
    })
  }

  async #reservation(random: Random): Promise<void> {
    this.#calls += 1
    const value = Math.floor(this.#calls / CALLS_PER_VALUE) * 3 + Math.floor(random.fraction() * 3)
    // Another generation has other values: those that nodes lost for good are not used again.
    const key = `r-value-${this.#generation}-${value}`
    if (random.fraction() < LOOKS) await this.#clients.standing(this.#somewhere(random), key)
    const held = await this.#clients.reserve(this.#somewhere(random), key, Math.floor(LEASE_MS / 2))
    if (held.type !== 'ok' || held.status !== 201) return
    const { id, token } = held
    const look = async () => {
      if (random.fraction() < LOOKS)
        await this.#clients.standingOf(this.#somewhere(random), { key, id, token })
    }
    await look()
    await pause(random.fraction() * 60)
    if (random.fraction() < 0.4)
      await this.#clients.end('extend', this.#somewhere(random), { key, id, token })
    const end = random.fraction()
    if (end < 0.75) await this.#clients.end('release', this.#somewhere(random), { key, id, token })
    else if (end < 0.85) await this.#clients.end('complete', this.#somewhere(random), { key, id, token })
    await look()
    if (random.fraction() < LOOKS) await this.#clients.standing(this.#somewhere(random), key)
  }
}
