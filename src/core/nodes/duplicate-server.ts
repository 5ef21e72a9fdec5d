/**
 * Recognises two servers that are used under the name of one node: some sidecars count the one, others the other.
 *
 * A name in DNS that was changed while the old server still ran, a pod that was replaced while its machine was only thought dead, a
 * load balancer: each of the two keeps its promises, and a majority with the one need not meet a majority with the other. Neither
 * server can know. But every node that votes counts its heartbeats, each incarnation for itself, and all nodes keep the newest
 * counters of the others. So where two nodes' notes of a name grow on under another incarnation than the one that is seen, the other
 * server lives. History does not grow, in the notes of one node: those of nodes that were away for long, and come back one after the
 * other, differ by what happened in between. A sidecar that dies or is late leaves a counter that is a few beats behind what others
 * know; that growth is no sign.
 *
 * Owns this judgement, and what one process has seen for it. A node that waits is not enrolled while the other server lives, and of
 * two that vote one loses its epoch (`node-history.ts`).
 */

import type { Membership } from './enrolment-rules.ts'
import { Hearsay } from './hearsay.ts'

/** Notes of a node that was just enrolled, or just restarted, are still on their way. */
const SETTLED_AFTER_MS = 3_000

/** So many more than were known: some three seconds of the other server's life, and more than anyone is late. */
export const DUPLICATE_BEATS = 5

/** Twice what five beats take where a node has one a second. Who waits for a node looks every second. */
const LIVES_FOR_MS = 10_000

/** How often the quarantine of a node begins anew while another server is used under its name. */
export const RESTART_EVERY_MS = 5_000

/** `agoMs`: since it was last seen to beat. `lives`: it has the name, or had it a moment ago. */
export type DuplicateServer = { readonly nonce: string; readonly lives: boolean; readonly agoMs: number }

export class DuplicateServers {
  /** By name: the nonce of the enrolment under which it votes, or the run that waits, and since when. */
  readonly #as = new Map<string, { readonly is: string; readonly sinceMonoMs: number }>()
  /** By nonce: the counter when it last proved something, or when it was first known; and when it did. */
  readonly #counters = new Hearsay()
  readonly #signs = new Hearsay()

  /** @param is what it is at this look */
  saw(name: string, is: string, nowMonoMs: number): void {
    if (this.#as.get(name)?.is === is) return
    this.#as.set(name, { is, sinceMonoMs: nowMonoMs })
    this.#counters.forget(name)
    this.#signs.forget(name)
  }

  /** A node notes that the node of this name has beaten so often in that incarnation. */
  noted(by: string, name: string, nonce: string, counter: number, nowMonoMs: number): void {
    const as = this.#as.get(name)
    if (as === undefined || nonce === as.is) return
    const before = this.#counters.said(by, name, nonce)
    const isSettled = before !== undefined && nowMonoMs - as.sinceMonoMs >= SETTLED_AFTER_MS
    if (isSettled && counter < before + DUPLICATE_BEATS) return
    this.#counters.heard(by, name, nonce, counter, nowMonoMs)
    if (isSettled) this.#signs.heard(by, name, nonce, nowMonoMs, nowMonoMs)
  }

  /** The other server that has this name, or had it; undefined where none was seen. */
  of(name: string, nowMonoMs: number): DuplicateServer | undefined {
    const signs = this.#signs.topicsOf(name).flatMap((nonce) => {
      const sign = this.#signs.believed(name, nonce)
      if (sign === undefined) return []
      const agoMs = nowMonoMs - sign.value
      return [{ nonce, agoMs, lives: agoMs < LIVES_FOR_MS }]
    })
    return signs.sort((one, other) => one.agoMs - other.agoMs)[0]
  }

  forget(name: string): void {
    this.#signs.forget(name)
  }

  disbelieve(by: string): void {
    this.#counters.disbelieve(by)
    this.#signs.disbelieve(by)
  }
}

/** Whether sidecars saw the other server a moment ago, as a node that waits shows it to whoever has not watched. */
export function showsDuplicate({ quarantine, nodeMs }: Pick<Membership, 'quarantine' | 'nodeMs'>): boolean {
  return quarantine?.rival === true && nodeMs - quarantine.sinceNodeMs < LIVES_FOR_MS
}

/**
 * Whether the quarantine of a node that has waited for so long began after the last promise of the other server: whichever
 * sidecar began it anew, the others need not do so again.
 */
export function hasOutlived({ agoMs }: DuplicateServer, waitedMs: number): boolean {
  return agoMs - waitedMs >= LIVES_FOR_MS
}

/** Both servers vote, and sidecars on either side know both incarnations: each of them names the same one. */
export function yieldsTo(nonce: string, other: string): boolean {
  return nonce < other
}
