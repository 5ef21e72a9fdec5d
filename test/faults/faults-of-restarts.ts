/** F44, F45: nodes that restart with their data, complete or outdated. */

import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { choose, type Fault, type FaultContext, pause } from './fault.ts'
import { allVote, FORGETFUL, PERSISTENT, stillKnown } from './of-nodes.ts'
import { NODES } from './stage.ts'

/**
 * From the start of one node to the end of the next. With `always`, sooner than a quarantine or even a look is over;
 * with `everysec` as far apart as docs/operations/nodes.md demands, so that no three loss windows overlap.
 */
const PAUSE_MS = { always: 2_000, everysec: 12_000 } as const

/** @param fsync of all nodes meanwhile */
function restarts(letter: string, count: 3 | 5, fsync: 'always' | 'everysec'): Fault {
  return {
    id: `F44${letter}`,
    what: `${count} nodes are restarted one after another with their data (${fsync})`,
    how: `append-only files on all nodes, appendfsync ${fsync}; SIGTERM and restart, the next ${PAUSE_MS[fsync] / 1_000} s later, nobody waits for votes`,
    mayLoseLease: true,
    inject: async (context) => {
      const { stage, fraction } = context
      await allVote(context)
      const all = [...stage.servers.urls.keys()]
      for (const node of all) await stage.admin[node]?.config('SET', 'appendfsync', fsync)
      for (const node of FORGETFUL) await keepFile(context, node)
      await pause(1_500)
      const keys = context.recentKeys(18)
      for (const node of choose(fraction, NODES, count)) {
        await stage.servers.stop(node)
        await stage.restartNode(node, { args: ['--appendonly', 'yes', '--appendfsync', fsync] })
        await pause(PAUSE_MS[fsync])
      }
      await allVote(context)
      await stillKnown(context, keys, `after ${count} restarts with data`)
      for (const node of FORGETFUL) await stage.admin[node]?.config('SET', 'appendonly', 'no')
      for (const node of all)
        await stage.admin[node]?.config('SET', 'appendfsync', node === 0 ? 'always' : 'everysec')
      return count
    },
  }
}

/** A node without persistence begins an append-only file, and has written it. */
async function keepFile({ stage, demand }: FaultContext, node: number): Promise<void> {
  await stage.admin[node]?.config('SET', 'appendonly', 'yes')
  await demand('a node has written its first append-only file', 20_000, async () => {
    const about = (await stage.admin[node]?.info('persistence')) ?? ''
    return /aof_enabled:1/.test(about) && /aof_rewrite_in_progress:0/.test(about)
  })
}

const rolledBack: Fault = {
  id: 'F45',
  what: 'the volume of one or two nodes is rolled back by some seconds',
  how: 'their data folder is copied; three seconds of traffic; SIGKILL, the copy in its place, restart',
  inject: async (context) => {
    const { stage, fraction } = context
    await allVote(context)
    const nodes = choose(fraction, PERSISTENT.length, fraction() < 0.5 ? 1 : 2).map(
      (at) => PERSISTENT[at] ?? 0,
    )
    const foldersOf = (node: number) => {
      const { folder } = stage.servers.at(node)
      return { data: join(folder, 'data'), earlier: join(folder, 'earlier') }
    }
    for (const node of nodes) {
      const { data, earlier } = foldersOf(node)
      rmSync(earlier, { recursive: true, force: true })
      cpSync(data, earlier, { recursive: true })
    }
    await pause(3_000)
    const keys = context.recentKeys(18)
    for (const node of nodes) {
      await stage.servers.kill(node)
      const { data, earlier } = foldersOf(node)
      rmSync(data, { recursive: true })
      cpSync(earlier, data, { recursive: true })
      await stage.restartNode(node)
    }
    await allVote(context)
    await stillKnown(context, keys, 'after a volume was rolled back')
    return nodes.length
  },
}

export const FAULTS_OF_RESTARTS: readonly Fault[] = [
  restarts('a', 3, 'always'),
  restarts('b', 3, 'everysec'),
  restarts('c', 5, 'always'),
  restarts('d', 5, 'everysec'),
  rolledBack,
]
