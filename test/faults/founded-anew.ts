/**
 * F40: all nodes lose everything at once beside sidecars that go on, and a fresh sidecar finds five empty nodes first.
 *
 * The acknowledged outcomes and grants of the others are lost, so no sidecar may execute or grant until the operator
 * decides; here the decision is to start everything anew, as docs/operations/nodes.md says.
 */

import { type Fault, type FaultContext, pause } from './fault.ts'
import { monoMs } from './history.ts'
import { allVote } from './of-nodes.ts'
import { LEASE_MS } from './stage.ts'

/** How long earlier grants and acknowledged requests are sent again: longer than a founding, or a lease, takes. */
const ASKED_FOR_MS = 2 * LEASE_MS

/** Sends recorded and held keys again through every sidecar that serves. */
async function askedAgain(
  { stage, clients }: FaultContext,
  keys: readonly string[],
  held: string,
): Promise<number> {
  let refused = 0
  const untilMs = monoMs() + ASKED_FOR_MS
  for (let at = 0; monoMs() < untilMs; at += 1) {
    const sidecar = at % stage.sidecarCount
    if (!stage.sidecar(sidecar).process.running) continue
    const key = keys[at % Math.max(1, keys.length)]
    const again = key === undefined ? undefined : await clients.submit({ sidecar, key })
    const taken = await clients.reserve(sidecar, held, LEASE_MS)
    await clients.standing(sidecar, held)
    if (again?.type === 'ok' && again.status === 503) refused += 1
    if (taken.type === 'ok' && taken.status === 503) refused += 1
    await pause(50)
  }
  return refused
}

export const FOUNDED_ANEW: Fault = {
  id: 'F40',
  what: 'all nodes are emptied at once, and a fresh sidecar comes before the others are back',
  how: 'SIGKILL of a sidecar and of all nodes, restart of them empty, start of the sidecar; duplicates and reservations of before; then everything is stopped, emptied and started',
  mayLoseLease: true,
  inject: async (context) => {
    const { stage, clients, demand, history, freshKey } = context
    await allVote(context)
    const fresh = stage.sidecarCount - 1
    const keys = context.recentKeys(8)
    const held = `r-${freshKey()}`
    await clients.reserve(0, held, LEASE_MS)
    await stage.endSidecar(fresh, 'SIGKILL')
    const nodes = [...stage.servers.urls.keys()]
    await Promise.all(nodes.map((node) => stage.servers.kill(node)))
    await Promise.all(nodes.map((node) => stage.restartNode(node, { emptied: true })))
    // It may find no cluster that it can serve: its start is not the subject.
    const started = stage.startSidecar(fresh).catch(() => {})
    const refused = await askedAgain(context, keys, held)
    await started
    const first = await clients.submit({ sidecar: 0, key: freshKey() })
    await demand(
      'beside a cluster that is known and gone no request is executed',
      1,
      async () => first.type === 'info' || first.status === 503,
    )
    if (refused > 0) history.saw('refused beside nodes that were all emptied', refused)
    context.lose()
    await Promise.all(stage.sidecars.map((_, index) => stage.endSidecar(index, 'SIGKILL')))
    await Promise.all(stage.admin.map((node) => node.flushall()))
    for (const index of stage.sidecars.keys()) await stage.startSidecar(index)
    await allVote(context)
    return nodes.length
  },
}
