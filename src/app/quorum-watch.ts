/** Whether every quorum group has a majority of nodes that vote and take writes, from what the nodes are reported to become. */

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
  const readsOnly = new Set<string>()
  const groups = nodeNames.flatMap((_, at) =>
    at % nodeCount === 0 ? [nodeNames.slice(at, at + nodeCount)] : [],
  )
  let before = !reported
  if (!before) changed(false)
  return (event) => {
    if (event.kind === 'node_state') {
      if (event.to === 'voting') away.delete(event.node)
      else away.add(event.node)
      // Told anew where it votes and refuses writes.
      readsOnly.delete(event.node)
    } else if (event.kind === 'node_writes') {
      if (event.refusal === undefined) readsOnly.delete(event.node)
      else readsOnly.add(event.node)
    } else return
    const present = groups.every(
      (group) => group.filter((name) => !away.has(name) && !readsOnly.has(name)).length >= required,
    )
    if (present !== before) changed(present)
    before = present
  }
}
