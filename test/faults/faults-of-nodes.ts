/** F1 to F10, F18, F38: faults of nodes, their memory and their disk. */

import { globSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { between, choose, during, type Fault, type FaultContext, pause } from './fault.ts'
import type { Submission } from './history.ts'
import { allVote, configured, errorsOf, FORGETFUL, PERSISTENT, recorded, refused } from './of-nodes.ts'
import { LEASE_MS, NODES, type Stage } from './stage.ts'

/** @param meanwhile the nodes stay stopped for at least as long as this takes */
async function stand(
  stage: Stage,
  nodes: readonly number[],
  ms: number,
  meanwhile?: () => Promise<unknown>,
): Promise<number> {
  for (const node of nodes) stage.servers.pause(node)
  await Promise.all([pause(ms), meanwhile?.()])
  for (const node of nodes) stage.servers.resume(node)
  return nodes.length
}

async function crash(context: FaultContext, nodes: readonly number[], emptied: boolean): Promise<number> {
  const { stage } = context
  for (const node of nodes) await stage.servers.kill(node)
  await pause(500)
  for (const node of nodes) await stage.restartNode(node, { emptied })
  await allVote(context)
  return nodes.length
}

async function refusedThenUsable(
  context: FaultContext,
  nodes: readonly number[],
  ms: number,
): Promise<number> {
  const { stage, clients, demand, freshKey } = context
  const keys = [freshKey(), freshKey(), freshKey()]
  const answers: Submission[] = []
  // A late request must not meet resumed nodes: it would succeed, and prove nothing.
  await stand(stage, nodes, ms, async () => {
    const sent = keys.map((key, index) => clients.submit({ sidecar: index % stage.sidecarCount, key }))
    answers.push(...(await Promise.all(sent)))
  })
  for (const [index, key] of keys.entries()) {
    await demand(
      'a key that was refused without a quorum is usable within a lease after it',
      LEASE_MS + 10_000,
      async () => {
        const again = await clients.submit({ sidecar: (index + 1) % stage.sidecarCount, key })
        return again.type === 'ok' && again.status === 201
      },
    )
  }
  return answers.filter((answer) => answer.type === 'info' || answer.status === 503).length
}

export const FAULTS_OF_NODES: readonly Fault[] = [
  {
    id: 'F1',
    what: 'one or two nodes stand still',
    how: 'SIGSTOP, SIGCONT after 0.5 to 3 s',
    inject: ({ stage, fraction }) =>
      stand(stage, choose(fraction, NODES, fraction() < 0.5 ? 1 : 2), between(fraction, 500, 3_000)),
  },
  {
    id: 'F2',
    what: 'three to five nodes stand still for longer than a lease',
    how: 'SIGSTOP of 3 to 5 nodes for 1.5 leases',
    mayLoseLease: true,
    inject: (context) =>
      refusedThenUsable(
        context,
        choose(context.fraction, NODES, 3 + Math.floor(context.fraction() * 3)),
        LEASE_MS * 1.5,
      ),
  },
  {
    id: 'F3',
    what: 'stalled nodes resume with queued commands',
    how: 'SIGSTOP of 3 nodes, SIGCONT after their clients have given up',
    mayLoseLease: true,
    inject: (context) => refusedThenUsable(context, choose(context.fraction, NODES, 3), 1_500),
  },
  {
    id: 'F4',
    what: 'nodes with an append-only file are killed and come back',
    how: 'SIGKILL of one or two nodes with AOF (always, everysec), restart',
    inject: (context) =>
      crash(
        context,
        choose(context.fraction, 3, 1 + Math.floor(context.fraction() * 2)).map((at) => PERSISTENT[at] ?? 0),
        false,
      ),
  },
  {
    id: 'F5',
    what: 'nodes without persistence are killed and come back empty',
    how: 'SIGKILL of one or both nodes that keep nothing, restart at once',
    inject: (context) => crash(context, context.fraction() < 0.5 ? [FORGETFUL[0] ?? 3] : FORGETFUL, true),
  },
  {
    id: 'F6',
    what: 'rolling restart of all nodes',
    how: 'SIGTERM and restart, each when the one before votes again',
    long: true,
    inject: async (context) => {
      for (let node = 0; node < NODES; node += 1) {
        await context.stage.servers.stop(node)
        await context.stage.restartNode(node)
        await allVote(context)
      }
      return NODES
    },
  },
  {
    id: 'F8',
    what: 'a node begins to evict',
    how: 'CONFIG SET maxmemory-policy allkeys-lru while it votes',
    inject: async (context) => {
      const { stage, demand, fraction } = context
      const nodes = choose(fraction, NODES, 1)
      const changed = await configured(stage, nodes, 'maxmemory-policy', ['allkeys-lru', 'noeviction'], () =>
        demand(
          'a node that may evict is kept out',
          10_000,
          async () => (await stage.votingNodes(0)) === NODES - 1,
        ),
      )
      await allVote(context)
      return changed
    },
  },
  {
    id: 'F9',
    what: 'one node, then three, are out of memory',
    how: 'CONFIG SET maxmemory 1 with noeviction',
    mayLoseLease: true,
    inject: async (context) => {
      const { stage, clients, fraction, demand } = context
      const nodes = choose(fraction, NODES, 3)
      const known = context.recentKeys(6)
      await configured(stage, nodes.slice(0, 1), 'maxmemory', ['1', '0'], () =>
        demand('with four nodes that have memory every request is recorded', 5_000, () => recorded(context)),
      )
      const before = await errorsOf(stage, nodes, 'OOM')
      await configured(stage, nodes, 'maxmemory', ['1', '0'], async () => {
        await demand('with three nodes out of memory no claim is granted', 5_000, () => refused(context))
        for (const [at, key] of known.entries())
          await demand('with three nodes out of memory duplicates are answered', 5_000, async () => {
            const again = await clients.submit({ sidecar: at % stage.sidecarCount, key })
            return again.type === 'ok' && again.says === 'replayed'
          })
        await pause(1_000)
      })
      await demand('with memory again every request is recorded', 10_000, () => recorded(context))
      return (await errorsOf(stage, nodes, 'OOM')) - before
    },
  },
  {
    id: 'F10',
    what: 'the disk of a node is full',
    how: 'write() to its append-only file fails with ENOSPC (preloaded library), everysec: MISCONF; always: the node ends',
    inject: async (context) => {
      const { stage } = context
      const node = context.fraction() < 0.5 ? 0 : 1
      stage.nodeClocks[node]?.fillDisk(true)
      await pause(3_000)
      const ended = !stage.servers.at(node).process.running
      const refused = ended ? 1 : await errorsOf(stage, [node], 'MISCONF')
      stage.nodeClocks[node]?.fillDisk(false)
      if (ended) await stage.restartNode(node)
      await allVote(context)
      return refused
    },
  },
  {
    id: 'F18',
    what: 'all nodes forget their scripts, again and again',
    how: 'SCRIPT FLUSH on every node each 100 ms',
    inject: ({ stage }) =>
      during(
        2_500,
        () => 100,
        () => Promise.all(stage.admin.map((node) => node.script('FLUSH'))),
      ),
  },
  {
    id: 'F38',
    what: 'power loss: the last writes of a node are missing',
    how: 'SIGKILL, its append-only file cut by a third, restart',
    inject: async (context) => {
      const { stage } = context
      const node = PERSISTENT[Math.floor(context.fraction() * 3)] ?? 0
      await stage.servers.kill(node)
      const files = globSync(join(stage.servers.at(node).folder, 'data/appendonlydir/*.incr.aof'))
      for (const file of files) truncateSync(file, Math.floor((statSync(file).size * 2) / 3))
      await stage.restartNode(node)
      await allVote(context)
      return files.length
    },
  },
]
