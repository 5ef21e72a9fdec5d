/**
 * The names of sidecars on the nodes, by their marks: whoever shows a record to an operator says by name who holds it.
 *
 * Owns how long a name is kept, and when it is written again. A name helps a person and decides nothing, so one node that knows
 * it is enough, and a node that lacks it is no fault.
 */

import type { Clock } from '../core/clock.ts'
import { pauseUnless, whenAborted } from '../core/retry.ts'
import { sidecarNameKey } from './keys.ts'
import { askingEach, type NodeClients } from './nodes.ts'

/** Longer than a claim that expired is of interest, after its sidecar has ended. */
const KEPT_MS = 7 * 24 * 3_600_000
/** A node that lost everything knows it again after this. */
const AGAIN_MS = 3_600_000
/** Where a node was away. It may be so for days, and every sidecar writes. */
const AGAIN_SOON_MS = 60_000
const DEADLINE_MS = 1_000

export type SidecarNamesOptions = {
  readonly clients: NodeClients
  readonly clock: Clock
}

export type SidecarNames = {
  /** Writes the name to all nodes, again and again until it is over. */
  announce(mark: string, name: string, over: AbortSignal): Promise<void>
  /** Undefined where no node that answers knows it. */
  nameOf(mark: string): Promise<string | undefined>
}

export function createSidecarNames({ clients, clock }: SidecarNamesOptions): SidecarNames {
  const onEach = askingEach(clients, DEADLINE_MS, clock)
  return {
    announce: async (mark, name, over) => {
      const ended = whenAborted(over)
      while (!over.aborted) {
        const answers = await onEach((client) => client.set(sidecarNameKey(mark), name, 'PX', KEPT_MS))
        const everywhere = answers.every((answer) => answer === 'OK')
        await pauseUnless([ended], everywhere ? AGAIN_MS : AGAIN_SOON_MS, clock)
      }
    },
    nameOf: async (mark) => {
      const answers = await onEach((client) => client.get(sidecarNameKey(mark)))
      return answers.find((answer) => typeof answer === 'string') ?? undefined
    },
  }
}
