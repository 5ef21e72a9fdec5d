/**
 * Whether every quorum group has a majority of nodes that vote, take writes and answer in time: the first two from what the nodes are reported
 * to become, the third from what clients get, which the quorum breaker knows.
 */

import type { CoreEvent } from '../core/events.ts'
import type { QuorumSize } from './readiness-facts.ts'

export type QuorumWatch = {
  saw(event: CoreEvent): void
  /** Groups whose breaker is not closed; the only one is named ''. */
  readonly unanswered: ReadonlySet<string>
}

/**
 * @param nodeNames of all groups, group after group
 * @param reported each node is reported once it votes, and until then it does not; embedded nodes vote and never are
 * @param changed called at each change
 */
export function watchQuorum(
  nodeNames: readonly string[],
  { nodeCount, required }: QuorumSize,
  changed: (present: boolean) => void,
  reported: boolean,
): QuorumWatch {
  const away = new Set(reported ? nodeNames : [])
  const readsOnly = new Set<string>()
  const unanswered = new Set<string>()
  const groups = nodeNames.flatMap((_, at) =>
    at % nodeCount === 0 ? [nodeNames.slice(at, at + nodeCount)] : [],
  )
  let before = !reported
  if (!before) changed(false)
  const saw = (event: CoreEvent) => {
    if (event.kind === 'node_state') {
      if (event.to === 'voting') away.delete(event.node)
      else away.add(event.node)
      // Told anew where it votes and refuses writes.
      readsOnly.delete(event.node)
    } else if (event.kind === 'node_writes') {
      if (event.refusal === undefined) readsOnly.delete(event.node)
      else readsOnly.add(event.node)
    } else if (event.kind === 'quorum_breaker_changed') {
      if (event.to === 'closed') unanswered.delete(event.group ?? '')
      else unanswered.add(event.group ?? '')
    } else return
    const takesWrites = (name: string) => !away.has(name) && !readsOnly.has(name)
    const present =
      unanswered.size === 0 && groups.every((group) => group.filter(takesWrites).length >= required)
    if (present !== before) changed(present)
    before = present
  }
  return { saw, unanswered }
}
