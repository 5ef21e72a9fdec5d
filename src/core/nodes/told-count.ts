/**
 * Recognises a node whose data were set back while it waits for its vote: a virtual machine that is restored with its memory.
 *
 * Its nonce is among the data, and so is its progress, which is of the same moment. But the process that copies to it remembers
 * what it has copied, and does not copy it again. So the node counts the calls that tell it records, in the same step; a node that
 * shows fewer than were known before it was asked lacks what later ones told it.
 *
 * Owns what one process knows of one node's count. `beats.ts` does the same for a node that votes.
 */

import type { Quarantine } from './enrolment-rules.ts'

export class ToldCount {
  #nonce = ''
  #calls = 0
  #lacking: string | undefined

  known(nonce: string): number {
    return nonce === this.#nonce ? this.#calls : 0
  }

  learn(nonce: string, calls: number): void {
    this.#calls = Math.max(this.known(nonce), calls)
    this.#nonce = nonce
  }

  /** A look begins. @returns to be called with what it shows: a call that comes meanwhile is no sign */
  asked(): (shown: Quarantine | undefined) => void {
    const [nonce, calls] = [this.#nonce, this.#calls]
    return (shown) => {
      if (shown === undefined) return
      const { told = 0 } = shown
      if (shown.nonce === nonce && told < calls) this.#lacking = nonce
      else this.learn(shown.nonce, told)
    }
  }

  /** What was copied to the node under that nonce is gone. */
  isLacking(nonce: string | undefined): boolean {
    return nonce !== undefined && nonce === this.#lacking
  }
}
