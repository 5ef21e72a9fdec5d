/**
 * What a sidecar runs against clock jumps of nodes: a look at each node about once a second, and the watch of
 * production over every sample of their clocks.
 *
 * Owns the looks, and what production's `core/nodes/node-driver.ts` does with a node that jumped: its answers stop counting, its
 * epoch is invalidated, and it is enrolled again. What a jump is, and of which node, is production code.
 */

import { SILENT } from '../../src/core/events.ts'
import { type ForwardJump, isForgotten } from '../../src/core/nodes/clock-jumps.ts'
import { type WatchedNodes, watchNodeClocks } from '../../src/core/nodes/node-clocks.ts'
import type { Dice } from './dice.ts'
import { CLOCK_STEP_MS, CLUSTER, call } from './enroller.ts'
import type { History } from './history.ts'
import type { Link } from './link.ts'
import type { SimulatedNode } from './node.ts'
import { MAX_TOKEN_AHEAD_MS, type Plan } from './plan.ts'
import type { SimulatedProcess } from './process.ts'
import type { Scheduler } from './scheduler.ts'

const LOOK_EVERY_MS = 1_000

export type ClockWatchPorts = {
  readonly process: SimulatedProcess
  readonly nodes: readonly SimulatedNode[]
  readonly links: readonly Link[]
  readonly scheduler: Scheduler
  readonly history: History
  readonly network: Plan['network']
  readonly healed: () => boolean
  readonly dice: Dice
  /** The node has lost its epoch. */
  readonly onRevoked: (node: SimulatedNode) => void
}

/** @returns the links, without the votes of nodes whose clock was stepped, and the sink for other clock samples */
export function watchClocks(ports: ClockWatchPorts): Pick<WatchedNodes, 'nodes' | 'saw'> {
  const { process, nodes, links, history, dice } = ports
  const { clock } = process
  const watched = watchNodeClocks({
    nodes: links,
    clock,
    events: SILENT,
    suspendMs: () => CLUSTER.quarantineMs,
    maxSkewMs: MAX_TOKEN_AHEAD_MS,
    enforce: false,
    toleratedStepMs: CLOCK_STEP_MS,
    onForwardJump: invalidateEpoch,
  })
  /** The epoch that each node showed when it was last looked at, and since when. */
  const epochSeen = nodes.map(({ epoch }) => ({ epoch, sinceMonoMs: clock.monoMs() }))

  function invalidateEpoch(index: number, jump: ForwardJump): void {
    const node = nodes[index]
    const { epoch, sinceMonoMs = Number.NEGATIVE_INFINITY } = epochSeen[index] ?? {}
    if (node === undefined || epoch === undefined || !isForgotten(epoch, sinceMonoMs, jump)) return
    history.saw('leap_noticed')
    links[index]?.invalidateEpoch(epoch)
    void revoke(node, epoch)
  }

  async function revoke(node: SimulatedNode, epoch: string): Promise<void> {
    await call(node, node.runId, ports, () => node.revoke(epoch)).catch(() => {})
    if (!node.voting) ports.onRevoked(node)
  }

  async function look(node: SimulatedNode): Promise<void> {
    const { index } = node
    const [sentMonoMs, sentWallMs] = [clock.monoMs(), clock.wallMs()]
    const seen = await call(node, node.runId, ports, () => ({
      nodeMs: Math.floor(node.nodeMs),
      epoch: node.epoch,
    }))
    const receivedMonoMs = clock.monoMs()
    if (epochSeen[index]?.epoch !== seen.epoch)
      epochSeen[index] = { epoch: seen.epoch, sinceMonoMs: receivedMonoMs }
    watched.saw(index, { nodeMs: seen.nodeMs, sentMonoMs, receivedMonoMs }, sentWallMs)
    // An earlier invalidation of its epoch may have failed.
    if (seen.epoch !== undefined && links[index]?.invalidated === seen.epoch) await revoke(node, seen.epoch)
  }

  function lookLater(node: SimulatedNode): void {
    clock.timer(LOOK_EVERY_MS * (0.75 + dice.fraction() / 2), () => {
      // Lost, or the node is down: in a second again.
      void look(node)
        .catch(() => {})
        .finally(() => lookLater(node))
    })
  }

  for (const node of nodes) {
    // A connection is inspected before a command is sent over it.
    const nowMonoMs = clock.monoMs()
    const sample = { nodeMs: Math.floor(node.nodeMs), sentMonoMs: nowMonoMs, receivedMonoMs: nowMonoMs }
    if (node.up) watched.saw(node.index, sample, clock.wallMs())
    lookLater(node)
  }
  return watched
}
