/** The slow logs of all nodes as they are now, for one question of an operator; the elected sidecar collects them by itself. */

import type { Clock } from '../core/clock.ts'
import type { NodeSlowLog } from '../http/operator/slow-commands.ts'
import { readNodeStats } from '../redis/node-details.ts'
import type { RedisNodes } from '../redis/nodes.ts'

const ANSWER_WITHIN_MS = 1_000

export function readSlowLogs(groups: readonly RedisNodes[], clock: Clock): Promise<readonly NodeSlowLog[]> {
  return Promise.all(
    groups
      .flatMap(({ members }) => members)
      .map(async ({ node, client }) => ({
        node: node.name,
        look: await readNodeStats(client, ANSWER_WITHIN_MS, clock).catch(() => undefined),
      })),
  )
}
