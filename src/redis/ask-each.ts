/** One question to each node, where a node that gives no answer is only not counted. */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import { within } from '../core/retry.ts'

/** The client of each node; undefined where no command may be sent to it now. */
export type NodeClients = () => readonly (Redis | undefined)[]

export type AskEach = <T>(
  ask: (client: Redis) => Promise<T>,
  onFailure?: (cause: unknown) => void,
) => Promise<readonly (T | undefined)[]>

/** The answer of each node, in their order; undefined without one in time: why does not matter to who asks so. */
export function askingEach(clients: NodeClients, deadlineMs: number, clock: Clock): AskEach {
  return (ask, onFailure) =>
    Promise.all(
      clients().map(async (client) =>
        client === undefined
          ? undefined
          : within(clock, deadlineMs, ask(client), 'no answer').catch((cause: unknown) => {
              onFailure?.(cause)
              return undefined
            }),
      ),
    )
}
