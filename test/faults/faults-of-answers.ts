/** F19 to F21: nodes that answer something else than the reply to the command. */

import { choose, type Fault, pause } from './fault.ts'
import { allVote, configured, errorsOf, PERSISTENT, recorded } from './of-nodes.ts'
import { NODES } from './stage.ts'

/** So that there is data to load at the beginning of a run too; a loading node answers every 1,024 commands. */
const LOADED_KEYS = 3_000
/** For the whole file on an idle machine; a busy one takes several times that. */
const LOADING_US = 1_500_000
/** The approximate size of one command in an append-only file. */
const COMMAND_BYTES = 150
/** The shortest sleep takes this long, whatever was requested. */
const SLEEP_US = 60

export const FAULTS_OF_ANSWERS: readonly Fault[] = [
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
    id: 'F20d',
    what: 'a node reads its file and answers LOADING',
    how: 'SIGKILL of a node with AOF, restart with a key-load-delay that makes it take seconds',
    inject: async (context) => {
      const { stage } = context
      const node = PERSISTENT[Math.floor(context.fraction() * PERSISTENT.length)] ?? 0
      const fill = stage.admin[node]?.pipeline()
      for (let n = 0; n < LOADED_KEYS; n += 1) fill?.set(`loading:${n}`, 'x', 'PX', 60_000)
      await fill?.exec()
      const persistence = (await stage.admin[node]?.info('persistence')) ?? ''
      const commands = Number(/aof_current_size:(\d+)/.exec(persistence)?.[1] ?? 0) / COMMAND_BYTES
      await stage.servers.kill(node)
      const delay = keyLoadDelay(LOADING_US / Math.max(1, commands))
      const starting = stage.restartNode(node, { args: ['--key-load-delay', String(delay)] })
      await context.demand('while it loads every request is recorded', 3_000, () => recorded(context))
      await starting
      await allVote(context)
      return errorsOf(stage, [node], 'LOADING')
    },
  },
  {
    id: 'F20e',
    what: 'a node has lost its master and answers MASTERDOWN',
    how: 'replica-serve-stale-data no, REPLICAOF a port where nobody listens, REPLICAOF NO ONE',
    inject: async (context) => {
      const { stage, fraction } = context
      const nodes = choose(fraction, NODES, 1)
      const before = await errorsOf(stage, nodes, 'MASTERDOWN')
      await configured(stage, nodes, 'replica-serve-stale-data', ['no', 'yes'], async () => {
        for (const node of nodes) await stage.admin[node]?.replicaof('127.0.0.1', 1)
        await context.demand('a node without its master is kept out', 10_000, async () => {
          const counts = await Promise.all(stage.sidecars.map((_, index) => stage.votingNodes(index)))
          return counts.every((count) => count === NODES - 1)
        })
        await context.demand('without it every request is recorded', 5_000, () => recorded(context))
        for (const node of nodes) await stage.admin[node]?.replicaof('NO', 'ONE')
      })
      await allVote(context)
      return (await errorsOf(stage, nodes, 'MASTERDOWN')) - before
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
]

/**
 * The setting that slows Redis down per command that it reads: microseconds to sleep after each, or -n for the shortest
 * sleep after one of n. With one sleep each, a file of eight minutes of traffic would take too long to read.
 */
function keyLoadDelay(eachUs: number): number {
  return eachUs > SLEEP_US ? Math.round(eachUs - SLEEP_US) + 1 : -Math.max(1, Math.round(SLEEP_US / eachUs))
}
