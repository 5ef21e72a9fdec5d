/** Whether every quorum group has a majority of voting nodes, from what the nodes are reported to become. */

import type { CoreEvent } from '../core/events.ts'
import type { QuorumSize } from './readiness-facts.ts'

/**
 * @param nodeNames of all groups, group after group
 * @param reported each node is reported once it votes, and until then it does not; embedded nodes vote and never are
 * @returns a subscriber that calls `changed` at each change
 */
export function watchQuorum(
  nodeNames: readonly string[],
  { nodeCount, required }: QuorumSize,
  changed: (present: boolean) => void,
  reported: boolean,
): (event: CoreEvent) => void {
  const away = new Set(reported ? nodeNames : [])
  const groups = nodeNames.flatMap((_, at) =>
    at % nodeCount === 0 ? [nodeNames.slice(at, at + nodeCount)] : [],
  )
  let before = !reported
  if (!before) changed(false)
  return (event) => {
    if (event.kind !== 'node_state') return
    if (event.to === 'voting') away.delete(event.node)
    else away.add(event.node)
    const present = groups.every((group) => group.filter((name) => !away.has(name)).length >= required)
    if (present !== before) changed(present)
    before = present
  }
}
