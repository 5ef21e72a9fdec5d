/** F16: faults of the wall clocks of nodes. */

import { choose, type Fault, pause } from './fault.ts'
import { allVote, recorded, refused } from './of-nodes.ts'
import { LEASE_MS, NODES, QUARANTINE_MS, type Stage } from './stage.ts'

/** Without the incarnation of this run: no sidecar counts the node. */
async function withoutVote(stage: Stage, nodes: readonly number[]): Promise<boolean> {
  const incarnations = await Promise.all(nodes.map((node) => stage.admin[node]?.get('dedup::incarnation')))
  return incarnations.every((incarnation) => incarnation === null)
}

export const FAULTS_OF_CLOCKS: readonly Fault[] = [
  ...(
    [
      ['a', '+2 s', 2_000, 0],
      ['b', '+ one lease', LEASE_MS, 0],
      ['c', '+1 h', 3_600_000, 0],
      ['d', '-30 s', -30_000, 0],
      ['e', '5 % slow', 0, -50_000],
    ] as const
  ).map(
    ([letter, step, offsetMs, ratePpm]): Fault => ({
      id: `F16${letter}`,
      what: `the clock of one or two nodes: ${step}`,
      how: 'preloaded library shifts their wall clock',
      inject: async (context) => {
        const { stage, fraction, demand } = context
        const nodes = choose(fraction, NODES, fraction() < 0.5 ? 1 : 2)
        for (const node of nodes) stage.nodeClocks[node]?.set(offsetMs, ratePpm)
        // A node that jumps ahead may have forgotten, and is treated so.
        if (offsetMs > 0)
          await demand('a node whose clock jumped ahead loses its incarnation', 10_000, () =>
            withoutVote(stage, nodes),
          )
        await pause(2_500)
        for (const node of nodes) stage.nodeClocks[node]?.set(0)
        // A step back suspends their votes once more; with another fault on top more than two would be out.
        await pause(QUARANTINE_MS)
        await allVote(context)
        return nodes.length
      },
    }),
  ),
  {
    id: 'F16f',
    what: 'the clocks of three nodes at once: + one lease',
    how: 'preloaded library shifts their wall clock; beyond what the protocol survives (A1), so it has to fail closed',
    mayLoseLease: true,
    inject: async (context) => {
      const { stage, fraction, demand } = context
      const nodes = choose(fraction, NODES, 3)
      for (const node of nodes) stage.nodeClocks[node]?.set(LEASE_MS)
      await demand('with three jumped clocks no claim is granted', 3_000, () => refused(context))
      await pause(QUARANTINE_MS)
      for (const node of nodes) stage.nodeClocks[node]?.set(0)
      await pause(QUARANTINE_MS)
      await demand('with right clocks every request is recorded', 10_000, () => recorded(context))
      await allVote(context)
      return nodes.length
    },
  },
]
