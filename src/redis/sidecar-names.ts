/**
 * The names of sidecars on the nodes, by their marks: whoever shows a record to an operator says by name who holds it.
 *
 * Owns how long a name is kept, and when it is written again. A name helps a person and decides nothing, so one node that knows
 * it is enough, and a node that lacks it is no fault.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import { pauseUnless, whenAborted, within } from '../core/retry.ts'
import { sidecarNameKey } from './keys.ts'

/** Longer than a claim that lapsed is of interest, after its sidecar has ended. */
const KEPT_MS = 7 * 24 * 3_600_000
/** A node that lost everything knows it again after this. */
const AGAIN_MS = 3_600_000
const AGAIN_SOON_MS = 10_000
const DEADLINE_MS = 1_000

export type SidecarNamesOptions = {
  /** One per node; undefined where no command may be sent to it now. */
  readonly clients: () => readonly (Redis | undefined)[]
  readonly clock: Clock
}

export type SidecarNames = {
  /** Writes the name to all nodes, again and again until it is over. */
  announce(mark: string, name: string, over: AbortSignal): Promise<void>
  /** Undefined where no node that answers knows it. */
  nameOf(mark: string): Promise<string | undefined>
}

export function createSidecarNames({ clients, clock }: SidecarNamesOptions): SidecarNames {
  /** The answer of each node; undefined without one, because a name is worth no error. */
  function onEach<T>(ask: (client: Redis) => Promise<T>): Promise<readonly (T | undefined)[]> {
    return Promise.all(
      clients().map((client) =>
        client === undefined
          ? undefined
          : within(clock, DEADLINE_MS, ask(client), 'no answer').catch(() => undefined),
      ),
    )
  }

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
