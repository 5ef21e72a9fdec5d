/**
 * Kills one thing after another while a campaign runs. Which, and when, comes from the campaign's dice.
 *
 * Owns the choice and the pace; how each victim dies, and who brings it back, is the campaign's.
 */
import { setTimeout as pause } from 'node:timers/promises'

export type NemesisOptions<V extends string> = {
  /** Weights: how often each of them is the victim. */
  readonly victims: Readonly<Record<V, number>>
  /** These die first, in this order, so that a short run has each; then chance decides. */
  readonly first?: readonly V[] | undefined
  /** Mean time between two kills; longer where a victim takes longer to come back. */
  readonly killEveryMs: number
  readonly fraction: () => number
  /** False where no victim was running just then. */
  readonly kill: (victim: V) => Promise<boolean>
}

export class Nemesis<V extends string> {
  readonly kills: Record<V, number>
  readonly #options: NemesisOptions<V>
  readonly #names: readonly V[]
  readonly #enough = Promise.withResolvers<void>()
  /** Victims that are still due to die first. */
  readonly #first: V[]
  #stopped = false

  constructor(options: NemesisOptions<V>) {
    this.#options = options
    this.#names = Object.keys(options.victims) as V[]
    this.#first = [...(options.first ?? [])]
    this.kills = Object.fromEntries(this.#names.map((name) => [name, 0])) as Record<V, number>
  }

  stop(): void {
    this.#stopped = true
    this.#enough.resolve()
  }

  async rage(): Promise<void> {
    const { killEveryMs, fraction, kill } = this.#options
    let dueMs = performance.now()
    while (!this.#stopped) {
      // What is late is not made up for: kills in a row would be another campaign.
      dueMs = Math.max(performance.now(), dueMs + killEveryMs * 2 * fraction())
      await Promise.race([pause(Math.max(0, dueMs - performance.now())), this.#enough.promise])
      if (this.#stopped) return
      const victim = this.#first[0] ?? this.#choose()
      if (!(await kill(victim))) continue
      this.kills[victim] += 1
      if (victim === this.#first[0]) this.#first.shift()
    }
  }

  #choose(): V {
    const { victims, fraction } = this.#options
    let dice = fraction() * this.#names.reduce((sum, name) => sum + victims[name], 0)
    return this.#names.find((name) => {
      dice -= victims[name]
      return dice < 0
    })!
  }
}
