/**
 * The traffic of a fault run: new requests, duplicates of recent ones at other sidecars, other content under a known
 * key, reservations of a few values, and an operator who decides about all of these, in an order that the seed decides.
 * What is given up, and decided later, is `given-up.ts`.
 */

import type { Random } from '../../src/core/clock.ts'
import { seededRandom } from '../support/seeded-random.ts'
import type { Mode } from './application.ts'
import { isDone } from './checkers/decisions.ts'
import type { Clients } from './clients.ts'
import { pause } from './fault.ts'
import { GivenUp } from './given-up.ts'
import { LEASE_MS } from './stage.ts'

const WORKERS = 6
/** Duplicates are of the latest requests. */
const RECENT_MAX = 120
/** The checker of reservations searches: after this many calls a value is replaced. */
const CALLS_PER_VALUE = 60

/** The checkers search for each key: the operator decides no more often about one. */
const DECISIONS_PER_KEY = 4
const DECISIONS = ['operator-end', 'operator-complete', 'operator-forget'] as const

/** The share of reads after a call that may have changed the state. */
const LOOKS = 0.3

/**
 * A claim that is live while an operator looks and still when it decides is rare on a busy machine, and only such a one
 * can be ended: what was never done comes first.
 *
 * @param dice from 0 up to 1
 */
export function decisionAbout(
  state: string,
  done: ReadonlySet<string>,
  dice: number,
): (typeof DECISIONS)[number] {
  const possible = state === 'live' ? DECISIONS : DECISIONS.slice(1)
  const never = possible.filter((decision) => !done.has(decision))
  const among = never.length > 0 ? never : possible
  return among[Math.floor(dice * among.length)] ?? 'operator-end'
}

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
  readonly #operator: boolean
  readonly #givenUp: GivenUp
  /** How often the operator has decided about a key. */
  readonly #decided = new Map<string, number>()
  /** Keys that a fault relies on: nobody decides about them. */
  readonly #relied = new Set<string>()
  /** Requests that the application is at work on, as far as their clients know. */
  readonly #underWay = new Set<string>()
  /** What the operator knows that it has decided at least once. */
  readonly #done = new Set<string>()
  #running = false
  #keys = 0
  #calls = 0
  #generation = 0

  /** @param operator whether one decides about the keys of the others */
  constructor(clients: Clients, sidecars: number, seed: number, operator = false) {
    this.#operator = operator
    this.#clients = clients
    this.#givenUp = new GivenUp(clients, sidecars)
    this.#sidecars = sidecars
    this.#seed = seed
    this.#names = seededRandom(seed)
  }

  freshKey(): string {
    this.#keys += 1
    return `key-${this.#keys}-${this.#names.hex(6)}`
  }

  /** From now on no operator decides about them. */
  recentKeys(count: number): readonly string[] {
    const keys = this.recorded.filter((key) => !this.#decided.has(key)).slice(-count)
    for (const key of keys) this.#relied.add(key)
    return keys
  }

  /** Keys that nodes lost for good must not be sent again. */
  forgetEarlierKeys(): void {
    this.#recent.length = 0
    this.recorded.length = 0
    this.#generation += 1
    this.#givenUp.forget()
  }

  start(): void {
    this.#running = true
    // Each worker has its own dice: the interleaving of workers changes none of their throws.
    for (let worker = 0; worker < WORKERS; worker += 1)
      this.#workers.push(this.#work(seededRandom(this.#seed + 1 + worker)))
    if (!this.#operator) return
    // After the healing every request has to succeed, so nobody gives up any more.
    const goesOn = () => this.#running && !this.#clients.healed
    this.#workers.push(
      this.#operate(seededRandom(this.#seed + 1 + WORKERS)),
      this.#givenUp.giveUp(seededRandom(this.#seed + 2 + WORKERS), goesOn),
      this.#givenUp.operate(seededRandom(this.#seed + 3 + WORKERS), goesOn),
    )
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
    this.#underWay.add(key)
    const answer = await this.#clients.submit({ sidecar: this.#somewhere(random), key, script })
    this.#underWay.delete(key)
    const created = answer.type === 'ok' && answer.says === 'created'
    if (created && generation === this.#generation && !this.#decided.has(key)) this.recorded.push(key)
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

  /** One of the values that are used now. Another generation has others: those that nodes lost for good are not used again. */
  #value(random: Random): string {
    const value = Math.floor(this.#calls / CALLS_PER_VALUE) * 3 + Math.floor(random.fraction() * 3)
    return `r-value-${this.#generation}-${value}`
  }

  async #operate(random: Random): Promise<void> {
    while (this.#running) {
      await this.#decide(random)
      await pause(20 + random.fraction() * 100)
    }
  }

  /** What it sees through one sidecar it decides through another, sometimes a while later. */
  async #decide(random: Random): Promise<void> {
    const of = random.fraction() < 0.5 ? 'request' : 'reservation'
    const key = of === 'reservation' ? this.#value(random) : this.#requested(random)
    const times = this.#decided.get(key ?? '') ?? 0
    if (key === undefined || this.#relied.has(key) || times >= DECISIONS_PER_KEY) return
    const generation = this.#generation
    const sight = await this.#clients.find(this.#somewhere(random), of, key)
    // A fault may have come to rely on it meanwhile.
    if (sight === undefined || this.#relied.has(key)) return
    this.#decided.set(key, times + 1)
    if (random.fraction() < 0.2) await pause(random.fraction() * 300)
    if (generation !== this.#generation) return
    const decision = decisionAbout(sight.state, this.#done, random.fraction())
    const decided = await this.#clients.decide(decision, this.#somewhere(random), { of, key, sight })
    if (decided !== undefined && isDone(decided)) this.#done.add(decision)
  }

  /** Rather one that is executed just now. */
  #requested(random: Random): string | undefined {
    const underWay = [...this.#underWay]
    if (underWay.length > 0 && random.fraction() < 0.7)
      return underWay[Math.floor(random.fraction() * underWay.length)]
    return this.#recent[Math.floor(random.fraction() * this.#recent.length)]?.key
  }

  async #reservation(random: Random): Promise<void> {
    this.#calls += 1
    const key = this.#value(random)
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
