/**
 * A short run on five real nodes with faults, and what the nodes executed in it: three sidecars, sessions that race,
 * expire, are taken over and released, while a node is suspended and killed, another one is emptied, and a third is
 * started again with its data.
 *
 * Owns what is done and in which order. It runs in real time on real servers, so no two runs are alike; the model
 * judges each.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '../support/eventually.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import type { Timed } from './node-recorder.ts'
import type { Event, Recorded } from './recorder.ts'
import { Sessions } from './sessions.ts'
import { WatchedNodes } from './watched-nodes.ts'

const NODES = 5

export type FaultRun = { readonly recorded: Recorded; readonly leftOut: number; readonly done: Done }

/** How often each occurred: a run without one proves nothing about it. */
export type Done = Record<'granted' | 'takenOver' | 'shown' | 'forgot' | 'told' | 'remembered', number>

export async function faultRun(): Promise<FaultRun> {
  await using servers = await startRedisServers(NODES, { appendOnly: true })
  await using watched = await WatchedNodes.of(servers)
  const urls = watched.links.map((link) => `redis://127.0.0.1:${link.port}`)
  const names = urls.map((_, index) => `node-${index}`)
  await using a = await joinCluster(urls, { names })
  await a.votes(NODES)
  await using b = await joinCluster(urls, { names })
  await using c = await joinCluster(urls, { names })
  const all = [a, b, c]
  const vote = () => Promise.all(all.map((sidecar) => sidecar.votes(NODES)))
  await vote()
  const sessions = new Sessions(all)

  await sessions.phase('calm', async () => {})
  await sessions.phase('killed', async () => {
    servers.pause(1)
    await pause(200)
    await watched.startAgain(1, { emptied: true })
    await vote()
  })
  await sessions.phase('emptied', async () => {
    const before = all.map(({ events }) => events.length)
    await watched.admin(3, (client) => client.flushall())
    const joined = () => all.every((sidecar, at) => sidecar.gotVote(3, before[at] ?? 0))
    await eventually('it rejoins', joined)
    await vote()
  })
  await sessions.phase('restarted', async () => {
    await watched.startAgain(2, { emptied: false })
    await vote()
  })
  const { timed, twice } = await watched.finish()
  return together(timed, sessions.concluded, twice)
}

function together(
  timed: readonly Timed[],
  concluded: readonly Timed[],
  twice: ReadonlySet<string>,
): FaultRun {
  // A node's own lines stay in their order: the sort is stable.
  const events = [...timed, ...concluded]
    .sort((one, other) => one.atUs - other.atUs)
    .map(({ event }) => event)
  const wanted = (key: string) => key.startsWith('dedup:shop:') && !twice.has(key)
  const kept = events.filter((event) => {
    if (event.kind === 'executed') return wanted(event.command.key)
    return 'key' in event ? wanted(event.key) : true
  })
  const count = (is: (event: Event) => boolean) => kept.filter(is).length
  const done = {
    granted: count(({ kind }) => kind === 'granted'),
    takenOver: count(
      (event) => event.kind === 'executed' && event.answer.kind === 'granted' && event.answer.attempt > 1,
    ),
    shown: count(({ kind }) => kind === 'shown'),
    forgot: count((event) => event.kind === 'forgot' && event.records.size === 0),
    told: count(({ kind }) => kind === 'told'),
    remembered: count((event) => event.kind === 'forgot' && event.records.size > 0),
  }
  const recorded = { nodeCount: NODES, events: kept, beyond: false, broken: [] }
  return { recorded, leftOut: [...twice].filter((key) => key.startsWith('dedup:shop:')).length, done }
}
