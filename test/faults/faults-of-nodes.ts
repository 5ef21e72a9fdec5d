/** F1 to F10, F16, F18 to F21, F38: what happens to nodes, their memory, their disk and their clocks. */

import { globSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { between, choose, during, type Fault, type FaultContext, pause } from './fault.ts'
import { LEASE_MS, NODES, QUARANTINE_MS, type Stage } from './stage.ts'

/** Copying what others remember to a node that syncs each write takes a while on a busy disk. */
const COPIED_WITHIN_MS = 60_000

/** Every node votes again: enrolled, copied, and the clocks of sidecars content. */
async function allVote({ stage, demand }: FaultContext): Promise<void> {
  await demand('every node votes again after it was enrolled', QUARANTINE_MS + COPIED_WITHIN_MS, async () => {
    const votes = await Promise.all(stage.sidecars.map((_, index) => stage.votingNodes(index)))
    return votes.every((count) => count === NODES)
  })
}

async function stand(stage: Stage, nodes: readonly number[], ms: number): Promise<number> {
  for (const node of nodes) stage.servers.pause(node)
  await pause(ms)
  for (const node of nodes) stage.servers.resume(node)
  return nodes.length
}

async function crash(context: FaultContext, nodes: readonly number[], emptied: boolean): Promise<number> {
  const { stage } = context
  for (const node of nodes) await stage.servers.kill(node)
  await pause(500)
  for (const node of nodes) await stage.restartNode(node, emptied)
  await allVote(context)
  return nodes.length
}

/** Changes settings of nodes and puts them back. */
async function configured(
  stage: Stage,
  nodes: readonly number[],
  setting: string,
  values: readonly [fault: string, healthy: string],
  meanwhile: () => Promise<unknown>,
): Promise<number> {
  for (const node of nodes) await stage.admin[node]?.config('SET', setting, values[0])
  await meanwhile()
  for (const node of nodes) await stage.admin[node]?.config('SET', setting, values[1])
  return nodes.length
}

/** How often the node has refused a write because its file can't be written. */
async function misconfigured(stage: Stage, node: number): Promise<number> {
  const errors = (await stage.admin[node]?.info('errorstats')) ?? ''
  return Number(/errorstat_MISCONF:count=(\d+)/.exec(errors)?.[1] ?? 0)
}

async function refusedThenUsable(
  context: FaultContext,
  nodes: readonly number[],
  ms: number,
): Promise<number> {
  const { stage, clients, demand, freshKey } = context
  const keys = [freshKey(), freshKey(), freshKey()]
  const standing = stand(stage, nodes, ms)
  await pause(50)
  const answers = await Promise.all(
    keys.map((key, index) => clients.submit({ sidecar: index % stage.sidecarCount, key })),
  )
  await standing
  for (const [index, key] of keys.entries()) {
    await demand(
      'what was refused without a quorum is usable within a lease after it',
      LEASE_MS + 10_000,
      async () => {
        const again = await clients.submit({ sidecar: (index + 1) % stage.sidecarCount, key })
        return again.type === 'ok' && again.status === 201
      },
    )
  }
  return answers.filter((answer) => answer.type === 'info' || answer.status === 503).length
}

/** The nodes 0, 1 and 2 keep an append-only file, 3 and 4 nothing (`run.ts`). */
const PERSISTENT = [0, 1, 2]
const FORGETFUL = [3, 4]

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
    inject: async ({ stage, fraction }) => {
      const nodes = choose(fraction, NODES, 3)
      await configured(stage, nodes.slice(0, 1), 'maxmemory', ['1', '0'], () => pause(1_000))
      return configured(stage, nodes, 'maxmemory', ['1', '0'], () => pause(1_500))
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
      const refused = ended ? 1 : await misconfigured(stage, node)
      stage.nodeClocks[node]?.fillDisk(false)
      if (ended) await stage.restartNode(node)
      await allVote(context)
      return refused
    },
  },
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
      inject: async ({ stage, fraction }) => {
        const nodes = choose(fraction, NODES, fraction() < 0.5 ? 1 : 2)
        for (const node of nodes) stage.nodeClocks[node]?.set(offsetMs, ratePpm)
        await pause(2_500)
        for (const node of nodes) stage.nodeClocks[node]?.set(0)
        // Stepped back, their votes are suspended once more; with another fault on top more than two would be out.
        await pause(QUARANTINE_MS)
        return nodes.length
      },
    }),
  ),
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
    id: 'F19',
    what: 'a node becomes a replica, and is promoted with the data of another',
    how: 'REPLICAOF another node, then REPLICAOF NO ONE',
    inject: async (context) => {
      const { stage, fraction } = context
      const [replica = 0, master = 1] = choose(fraction, NODES, 2)
      const port = new URL(stage.servers.at(master).url).port
      await stage.admin[replica]?.replicaof('127.0.0.1', Number(port))
      await context.demand(
        'the replica has the data of its master',
        20_000,
        async () =>
          (await stage.admin[replica]?.info('replication'))?.includes('master_link_status:up') === true,
      )
      await stage.admin[replica]?.replicaof('NO', 'ONE')
      await allVote(context)
      return 1
    },
  },
  {
    id: 'F20a',
    what: 'a node is busy with a script that does not end',
    how: 'EVAL of an endless loop, busy-reply-threshold 100 ms, SCRIPT KILL',
    inject: async ({ stage, fraction }) => {
      const [node = 0] = choose(fraction, NODES, 1)
      const admin = stage.admin[node]
      const busy = admin?.duplicate()
      await admin?.config('SET', 'busy-reply-threshold', '100')
      const endless = busy?.eval('while true do end', 0).catch(() => {})
      await pause(2_000)
      await admin?.script('KILL')
      await endless
      busy?.disconnect()
      return 1
    },
  },
  {
    id: 'F20b',
    what: 'a node asks for a password that nobody has',
    how: 'CONFIG SET requirepass, CLIENT KILL',
    inject: async (context) => {
      const { stage, fraction } = context
      const nodes = choose(fraction, NODES, 1)
      const killed = await configured(stage, nodes, 'requirepass', ['nobody-knows', ''], async () => {
        for (const node of nodes)
          await stage.admin[node]?.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        await pause(1_500)
      })
      await allVote(context)
      return killed
    },
  },
  {
    id: 'F20c',
    what: 'a node takes no more connections',
    how: 'CONFIG SET maxclients 1, CLIENT KILL',
    inject: async (context) => {
      const { stage, fraction } = context
      const nodes = choose(fraction, NODES, 1)
      const killed = await configured(stage, nodes, 'maxclients', ['1', '10000'], async () => {
        for (const node of nodes)
          await stage.admin[node]?.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        await pause(1_500)
      })
      await allVote(context)
      return killed
    },
  },
  {
    id: 'F21',
    what: 'records of one node are of another type',
    how: 'DEL and LPUSH of records on one node; their requests come again',
    inject: async ({ stage, clients, fraction, recentKeys }) => {
      const [node = 0] = choose(fraction, NODES, 1)
      const admin = stage.admin[node]
      const [, found] = (await admin?.scan('0', 'MATCH', 'dedup:acme:*', 'COUNT', 200)) ?? ['0', []]
      for (const key of found) {
        await admin?.multi().del(key).lpush(key, 'not a record').pexpire(key, 60_000).exec()
      }
      await Promise.all(
        recentKeys(20).map((key, index) => clients.submit({ sidecar: index % stage.sidecarCount, key })),
      )
      return found.length
    },
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
