/**
 * The traffic of a fault run: new requests, duplicates of recent ones at other sidecars, other content under a known key, and
 * reservations of a few values, in an order that the seed decides.
 */

import type { Random } from '../../src/core/ports.ts'
import type { Mode } from './application.ts'
import type { Clients } from './clients.ts'
import { pause } from './fault.ts'
import { LEASE_MS } from './stage.ts'

const WORKERS = 6
/** Duplicates come for the latest of them. */
const RECENT_MAX = 120
/** The checker of reservations searches: so many calls a value, and then another value. */
const CALLS_PER_VALUE = 60

type Known = { readonly key: string; readonly script: readonly Mode[] }

export class Load {
  readonly #clients: Clients
  readonly #sidecars: number
  readonly #random: Random
  readonly #recent: Known[] = []
  readonly #workers: Promise<void>[] = []
  /** Of all requests that were recorded and acknowledged. */
  readonly recorded: string[] = []
  #running = false
  #keys = 0
  #calls = 0
  #generation = 0

  constructor(clients: Clients, sidecars: number, random: Random) {
    this.#clients = clients
    this.#sidecars = sidecars
    this.#random = random
  }

  freshKey(): string {
    this.#keys += 1
    return `key-${this.#keys}-${this.#random.hex(6)}`
  }

  recentKeys(count: number): readonly string[] {
    return this.recorded.slice(-count)
  }

  /** What nodes lost for good must not be asked for again. */
  forgetEarlierKeys(): void {
    this.#recent.length = 0
    this.recorded.length = 0
    this.#generation += 1
  }

  start(): void {
    this.#running = true
    for (let worker = 0; worker < WORKERS; worker += 1) this.#workers.push(this.#work())
  }

  async stop(): Promise<void> {
    this.#running = false
    await Promise.all(this.#workers.splice(0))
  }

  async #work(): Promise<void> {
    while (this.#running) {
      const dice = this.#random.fraction()
      if (dice < 0.3 || this.#recent.length === 0) await this.#fresh()
      else if (dice < 0.86) await this.#duplicate()
      else if (dice < 0.89) await this.#otherContent()
      else await this.#reservation()
      await pause(5 + this.#random.fraction() * 25)
    }
  }

  #somewhere(): number {
    return Math.floor(this.#random.fraction() * this.#sidecars)
  }

  async #fresh(): Promise<void> {
    const slow = this.#random.fraction() < 0.15
    const script: readonly Mode[] = slow ? [`slow:${Math.floor(50 + this.#random.fraction() * 500)}`] : []
    const known = { key: this.freshKey(), script }
    this.#recent.push(known)
    if (this.#recent.length > RECENT_MAX) this.#recent.shift()
    await this.#send(known)
  }

  async #duplicate(): Promise<void> {
    const known = this.#recent[Math.floor(this.#random.fraction() * this.#recent.length)]
    if (known !== undefined) await this.#send(known)
  }

  async #send({ key, script }: Known): Promise<void> {
    const generation = this.#generation
    const answer = await this.#clients.submit({ sidecar: this.#somewhere(), key, script })
    const created = answer.type === 'ok' && answer.says === 'created'
    if (created && generation === this.#generation) this.recorded.push(key)
  }

  async #otherContent(): Promise<void> {
    const known = this.#recent[Math.floor(this.#random.fraction() * this.#recent.length)]
    if (known === undefined) return
    await this.#clients.submit({
      sidecar: this.#somewhere(),
      key: known.key,
      content: 'other',
      script: known.script,
    })
  }

  async #reservation(): Promise<void> {
    this.#calls += 1
    const value = Math.floor(this.#calls / CALLS_PER_VALUE) * 3 + Math.floor(this.#random.fraction() * 3)
    const key = `r-value-${value}`
    const held = await this.#clients.reserve(this.#somewhere(), key, Math.floor(LEASE_MS / 2))
    if (held.type !== 'ok' || held.status !== 201) return
    const { id, token } = held
    await pause(this.#random.fraction() * 60)
    if (this.#random.fraction() < 0.4)
      await this.#clients.end('extend', this.#somewhere(), { key, id, token })
    const end = this.#random.fraction()
    if (end < 0.85) await this.#clients.end('release', this.#somewhere(), { key, id, token })
    else if (end < 0.88) await this.#clients.end('complete', this.#somewhere(), { key, id, token })
  }
}
