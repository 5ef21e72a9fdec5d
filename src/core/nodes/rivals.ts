/**
 * Recognises two servers that are used under the name of one node: some sidecars count the one, others the other.
 *
 * A name in DNS that was changed while the old server still ran, a pod that was replaced while its machine was only
 * thought dead, a load balancer: each of the two keeps its promises, and a majority with the one need not meet a
 * majority with the other. Neither server can know. But every node that votes beats (`beats.ts`), each enrolment counts
 * for itself, and all nodes keep the newest counts of the others. So whoever finds a name's count growing on under
 * another enrolment than the one that it sees, sees the other server live. History does not grow, in the notes of one node:
 * those of two nodes that were away for long, and come back one after the other, differ by what happened in between.
 *
 * A sidecar that dies or is late leaves a count that is a few beats behind what others know; that growth is no sign.
 *
 * Owns this judgement, and what one process has seen for it. What follows from it is `continuity.ts` and `enroller.ts`
 * of the adapter: a node that waits is not enrolled while the other one lives, and of two that vote one loses its epoch.
 */

import type { Membership } from './enrolment-rules.ts'

/** Notes of a node that was just enrolled, or just restarted, are still on their way. */
const SETTLED_AFTER_MS = 3_000

/** So many beats more than were known: some three seconds of the other server's life, and more than anyone is late. */
export const RIVAL_BEATS = 5

/** Twice what five beats take where a node has one a second. Who waits for a node looks every second. */
const LIVES_FOR_MS = 10_000

/** How often the quarantine of a node begins anew while another server is used under its name. */
export const RESTART_EVERY_MS = 5_000

type Seen = {
  readonly as: string
  readonly sinceMonoMs: number
  /** By who noted it, and the nonce of another enrolment: its count when it last proved something, or when it was first known. */
  readonly counts: Map<string, number>
  rival: { readonly nonce: string; readonly atMonoMs: number } | undefined
}

/** `agoMs`: since it was last seen to beat. */
export type Rival = { readonly nonce: string; readonly lives: boolean; readonly agoMs: number }

export class RivalWatch {
  readonly #seen = new Map<string, Seen>()

  /** @param as what it is at this look: the nonce of the enrolment under which it votes, or the run that waits */
  saw(name: string, as: string, nowMonoMs: number): void {
    if (this.#seen.get(name)?.as === as) return
    this.#seen.set(name, { as, sinceMonoMs: nowMonoMs, counts: new Map(), rival: undefined })
  }

  /** A node notes that the node of this name has beaten so often under that enrolment. */
  noted(by: string, name: string, nonce: string, count: number, nowMonoMs: number): void {
    const seen = this.#seen.get(name)
    if (seen === undefined || nonce === seen.as || !(count > 0)) return
    const note = `${by} ${nonce}`
    const before = seen.counts.get(note)
    if (before === undefined || nowMonoMs - seen.sinceMonoMs < SETTLED_AFTER_MS) {
      seen.counts.set(note, Math.max(before ?? 0, count))
      return
    }
    if (count < before + RIVAL_BEATS) return
    seen.counts.set(note, count)
    seen.rival = { nonce, atMonoMs: nowMonoMs }
  }

  /** The other server that has this name, or had it a moment ago (`lives`); undefined where none was seen. */
  rivalOf(name: string, nowMonoMs: number): Rival | undefined {
    const rival = this.#seen.get(name)?.rival
    if (rival === undefined) return undefined
    const agoMs = nowMonoMs - rival.atMonoMs
    return { nonce: rival.nonce, lives: agoMs < LIVES_FOR_MS, agoMs }
  }

  /** What was made of a rival that no longer lives need not be made again. */
  forget(name: string): void {
    const seen = this.#seen.get(name)
    if (seen !== undefined) seen.rival = undefined
  }
}

/** Whether sidecars saw the other server a moment ago, as a node that waits shows it to whoever has not watched. */
export function showsRival({ quarantine, nodeMs }: Pick<Membership, 'quarantine' | 'nodeMs'>): boolean {
  return quarantine?.rival === true && nodeMs - quarantine.sinceNodeMs < LIVES_FOR_MS
}

/**
 * Whether the quarantine of a node that has waited for so long began after the last promise of the other server: whichever
 * sidecar began it anew, the others need not do so again.
 */
export function hasOutlived({ agoMs }: Rival, waitedMs: number): boolean {
  return agoMs - waitedMs >= LIVES_FOR_MS
}

/** Both servers vote, and sidecars on either side know both enrolments: each of them names the same one. */
export function yieldsTo(nonce: string, rival: string): boolean {
  return nonce < rival
}
