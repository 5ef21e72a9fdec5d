/**
 * Recognises a server that is used again after another one had its name: a change of DNS that is taken back while the
 * first server still runs, a load balancer that returns from its spare.
 *
 * Its process never stopped, so its epoch stands, and it lacks all that was recorded while the other server voted. A
 * sidecar that used both sees an epoch of before (`epoch-watch.ts`). One that has started since sees nothing by itself,
 * but each node notes under which enrolment the others vote, and their newest pulses. An enrolment that had its last
 * pulse long before the newest one of its name, which a node notes under another enrolment, was out of use meanwhile.
 * That a note still stands says nothing: where the list of nodes is changed each node gets another epoch (`membership.lua`),
 * and the others note the one of before until a sidecar has seen both.
 *
 * Pulses are written only where a node's clock agrees with those of a majority, so those of two servers can be compared.
 * Where all clocks were ahead and are right again, the pulse of the node that notes it is the one that is not to come.
 *
 * Owns this judgement, and what one process knows for it. `rivals.ts` knows two servers that are used at once.
 */

import { enrolledAtNodeMs, isEnrolled, type Membership, nonceIn } from './enrolment-rules.ts'

/** Notes of a node that was just enrolled are on their way for a second or two. */
const NOTED_WITHIN_MS = 3_000

export class Succession {
  readonly #marginMs: number
  /** By name and nonce: the time of the newest pulse that shows the enrolment in use. Enrolments are few. */
  readonly #used = new Map<string, Map<string, number>>()

  constructor(toleratedStepMs: number) {
    this.#marginMs = NOTED_WITHIN_MS + 2 * toleratedStepMs
  }

  /** The node of this name voted under that enrolment when it had a pulse at this time. */
  used(name: string, nonce: string, pulseMs: number): void {
    const all = this.#used.get(name) ?? new Map<string, number>()
    this.#used.set(name, all)
    all.set(nonce, Math.max(all.get(nonce) ?? 0, pulseMs))
  }

  /** Whether another enrolment of this name was in use long after this one had its last pulse. */
  isOver(name: string, shown: Membership & Pulsed): boolean {
    const pulseMs = pulseOf(shown)
    if (pulseMs === undefined || shown.epoch === undefined) return false
    const nonce = nonceIn(shown.epoch)
    const lastMs = Math.max(pulseMs, enrolledAtNodeMs(shown.epoch) ?? 0) + this.#marginMs
    return [...(this.#used.get(name) ?? [])].some(([other, usedMs]) => other !== nonce && usedMs > lastMs)
  }

  /** It lost its epoch for that: its next enrolment is judged by what is seen from then on. */
  forget(name: string): void {
    this.#used.delete(name)
  }
}

type Pulsed = { readonly pulse: { readonly runId: string; readonly nodeMs: number } | undefined }

/** The pulse of the run that votes; undefined where it has none: nothing says when it was used. */
export function pulseOf(shown: Membership & Pulsed): number | undefined {
  return isEnrolled(shown) && shown.pulse?.runId === shown.runId ? shown.pulse.nodeMs : undefined
}
