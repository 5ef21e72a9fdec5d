/**
 * Recognises a node whose data were set back while its process went on: a virtual machine that is restored with its memory.
 *
 * Its epoch is among the data, so it names the run that goes on. But each pulse (`continuity.ts`) is counted in the
 * same step, and under one epoch this count, its *beat*, only grows, whatever its clock does. So a node that shows less
 * than it, or another node that had noted its beat, showed before has lost what it wrote in between. What it did after
 * its last beat may be lost without a sign.
 *
 * Owns the comparison, and what this process knows of beats. Reading and writing them is an adapter's job.
 */

import { nonceIn } from './enrolment-rules.ts'

/** As a node's data say. */
export type Beats = {
  /** 0 where none was written. */
  readonly own: number
  /** By the name of another node: the nonce of its epoch, `:`, and its count. */
  readonly others: ReadonlyMap<string, string>
}

type Known = { readonly count: number; readonly sinceMonoMs: number }

export class BeatMemory {
  /** The largest count that was shown of each enrolment of each node. Enrolments are few. */
  readonly #known = new Map<string, Known>()
  /** The nonce of each node's epoch at the last look. */
  readonly #nonces = new Map<string, string>()

  /**
   * A node that votes was looked at.
   *
   * @param sentMonoMs of the look: what became known later may be later than what the node showed
   * @returns whether it was set back
   */
  saw(name: string, epoch: string, beats: Beats, sentMonoMs: number, receivedMonoMs: number): boolean {
    const nonce = nonceIn(epoch)
    const known = this.#known.get(keyOf(name, nonce))
    this.#nonces.set(name, nonce)
    this.#learn(name, nonce, beats.own, receivedMonoMs)
    for (const [other, noted] of beats.others) {
      const end = noted.lastIndexOf(':')
      this.#learn(other, noted.slice(0, end), Number(noted.slice(end + 1)), receivedMonoMs)
    }
    return known !== undefined && known.sinceMonoMs < sentMonoMs && beats.own < known.count
  }

  /** The node's pulse was written under that epoch. */
  wrote(name: string, epoch: string, count: number, nowMonoMs: number): void {
    this.#learn(name, nonceIn(epoch), count, nowMonoMs)
  }

  /** For the notes of other nodes; undefined where nothing is known. */
  noteOf(name: string): string | undefined {
    const nonce = this.#nonces.get(name)
    const known = nonce === undefined ? undefined : this.#known.get(keyOf(name, nonce))
    return known === undefined ? undefined : `${nonce}:${known.count}`
  }

  #learn(name: string, nonce: string, count: number, sinceMonoMs: number): void {
    const key = keyOf(name, nonce)
    // 0 is no beat, and NaN no number.
    if (count > (this.#known.get(key)?.count ?? 0)) this.#known.set(key, { count, sinceMonoMs })
  }
}

/** All nodes of a cluster that was founded together have the same nonce. */
function keyOf(name: string, nonce: string): string {
  return `${name} ${nonce}`
}
