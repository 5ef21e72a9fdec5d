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
import { RIVAL_BEATS } from './rivals.ts'

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
      this.#learn(other, ...splitNote(noted), receivedMonoMs)
    }
    return known !== undefined && known.sinceMonoMs < sentMonoMs && beats.own < known.count
  }

  /** The node's pulse was written under that epoch. */
  wrote(name: string, epoch: string, count: number, nowMonoMs: number): void {
    this.#learn(name, nonceIn(epoch), count, nowMonoMs)
  }

  /** The node does not vote: what is known of its last enrolment is no news. */
  waits(name: string): void {
    this.#nonces.delete(name)
  }

  /**
   * Whether a node's note about another one is so old, or about so different an enrolment, that it must be written even
   * though nobody else's note of this moment is: two servers behind one name are known by such notes alone (`rivals.ts`).
   */
  isBehind(name: string, noted: string | undefined): boolean {
    const own = this.noteOf(name)
    if (own === undefined) return false
    const [nonce, count] = splitNote(own)
    const [itsNonce, itsCount] = splitNote(noted ?? '')
    return nonce !== itsNonce || count >= itsCount + RIVAL_BEATS
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

/** The nonce and the count of a note; NaN where there is no number. */
export function splitNote(note: string): readonly [nonce: string, count: number] {
  const end = note.lastIndexOf(':')
  return [note.slice(0, end), Number(note.slice(end + 1))]
}

/** All nodes of a cluster that was founded together have the same nonce. */
function keyOf(name: string, nonce: string): string {
  return `${name} ${nonce}`
}
