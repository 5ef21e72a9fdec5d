/**
 * F46: the name of a node leads to two servers, as after a change of DNS while the old server still runs, after a pod was
 * replaced by force, or behind a load balancer.
 *
 * Owns the second server and where the links of a node lead. Only one of the two may count, so what a majority with
 * the one has recorded is never executed again by a majority with the other: {@link parted} asks for just that.
 *
 * Where sidecars use both at once, sidecars find it within some ten seconds (docs/operations/nodes.md). With a shorter
 * quarantine both vote until then, and nothing is promised; so these faults ask for a longer one.
 */

import { Redis } from 'ioredis'
import { CLUSTER_KEY, QUARANTINE_KEY } from '../../src/redis/keys.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { between, choose, during, type Fault, type FaultContext, pause } from './fault.ts'
import { monoMs } from './history.ts'
import { allVote, hasJoinedItself, joinedWithinMs, stillKnown } from './of-nodes.ts'
import { NODES, QUARANTINE_MS, type Stage } from './stage.ts'

/** Longer than it takes to find a second server that is used. */
const LONG_QUARANTINE_MS = 15_000

/** For so long requests are sent that only a second majority could execute. */
const ASKED_FOR_MS = 4_000

/** Executed by a majority with the one server, and asked for where a majority with the other can be reached. */
const KEYS = 6

type Second = { readonly servers: RedisServers; readonly admin: Redis; readonly port: number }

/** The other server of a node: it comes up empty, and is gone at the end. */
async function withSecond<T>(act: (second: Second) => Promise<T>): Promise<T> {
  await using servers = await startRedisServers(1)
  const { url } = servers.at(0)
  const admin = new Redis(url, { maxRetriesPerRequest: 1, retryStrategy: () => 200 })
  admin.on('error', () => {})
  try {
    return await act({ servers, admin, port: Number(new URL(url).port) })
  } finally {
    admin.disconnect()
  }
}

/** All sidecars are restarted with a longer quarantine, and afterwards as they were: they keep to the longest that they met. */
export async function patiently<T>({ stage }: FaultContext, act: () => Promise<T>): Promise<T> {
  await stage.restartSidecars({ settings: { FENCEPOST_QUARANTINE: `${LONG_QUARANTINE_MS}ms` } })
  try {
    return await act()
  } finally {
    await stage.restartSidecars({ settings: {} }, () =>
      Promise.all(stage.admin.map((node) => node.hset(CLUSTER_KEY, 'quarantine_ms', QUARANTINE_MS))),
    )
  }
}

/** Their connections to a node are made again, to where the name leads now. */
function redial(stage: Stage, sidecars: readonly number[], node: number): void {
  for (const sidecar of sidecars) stage.link(sidecar, node).reset()
}

function refuse(stage: Stage, sidecars: readonly number[], nodes: readonly number[]): void {
  for (const sidecar of sidecars) for (const node of nodes) stage.link(sidecar, node).set({ refuse: true })
}

function reach(stage: Stage, sidecars: readonly number[], nodes: readonly number[]): void {
  for (const sidecar of sidecars) for (const node of nodes) stage.link(sidecar, node).set({})
}

/** Requests that were executed through these sidecars. */
async function executed(context: FaultContext, sidecars: readonly number[]): Promise<readonly string[]> {
  const { clients, demand, freshKey } = context
  const keys: string[] = []
  let at = 0
  await demand('three of five nodes execute requests', 60_000, async () => {
    const key = freshKey()
    const answer = await clients.submit({ sidecar: sidecars[at % sidecars.length] ?? 0, key })
    at += 1
    if (answer.type === 'ok' && answer.says === 'created') keys.push(key)
    return keys.length >= KEYS
  })
  return keys
}

/** Sends them again where their record can't be reached. The checkers judge what is executed. @returns refusals */
async function askedAgain(
  { clients }: FaultContext,
  sidecars: readonly number[],
  keys: readonly string[],
): Promise<number> {
  let refusals = 0
  const untilMs = monoMs() + ASKED_FOR_MS
  // On a busy machine an answer takes long: each key is asked for at least once.
  for (let at = 0; at < keys.length || (monoMs() < untilMs && keys.length > 0); at += 1) {
    const sidecar = sidecars[at % sidecars.length] ?? 0
    const again = await clients.submit({ sidecar, key: keys[at % keys.length] ?? '' })
    if (again.type === 'ok' && again.status === 503) refusals += 1
    await pause(50)
  }
  return refusals
}

/** The sidecars of one side reach two of the other nodes, those of the other side the other two. @returns refusals */
async function parted(
  context: FaultContext,
  node: number,
  [ones, others]: readonly [ones: readonly number[], others: readonly number[]],
): Promise<number> {
  const { stage } = context
  const rest = [...Array(NODES).keys()].filter((one) => one !== node)
  refuse(stage, ones, rest.slice(2))
  refuse(stage, others, rest.slice(0, 2))
  const keys = await executed(context, ones)
  const refusals = await askedAgain(context, others, keys)
  reach(stage, [...ones, ...others], rest)
  return refusals
}

/** Some sidecars use the second server under the name of the node, from its start until its quarantine would be over. */
export async function halfMoved(context: FaultContext, node: number, moved: readonly number[]) {
  const { stage, demand } = context
  const stayed = [...stage.links.keys()].filter((sidecar) => !moved.includes(sidecar))
  return withSecond(async ({ admin, port }) => {
    const sinceMs = monoMs()
    for (const sidecar of moved) stage.link(sidecar, node).leadTo(port)
    redial(stage, moved, node)
    await demand('the second server waits, and says why, or votes', 2 * LONG_QUARANTINE_MS, async () => {
      return (await admin.hget(QUARANTINE_KEY, 'duplicate_server')) === '1' || (await hasJoinedItself(admin))
    })
    // A build that does not look for the other server lets it rejoin now.
    await pause(Math.max(0, sinceMs + LONG_QUARANTINE_MS + 2_500 - monoMs()))
    const refusals = await parted(context, node, [stayed, moved])
    for (const sidecar of moved) stage.link(sidecar, node).heal()
    return refusals
  })
}

/** All sidecars move, what they record meanwhile two nodes miss, and they come back to the first server as it was then. */
function thereAndBack(id: string, when: string, meanwhile: (stage: Stage) => Promise<unknown>): Fault {
  return {
    id,
    what: `the name of a node leads to an empty server, and back to the first one, which has gone on with old data${when}`,
    how: 'links lead to a second server, their connections are reset; when it votes two nodes are cut off; back, and the other two are cut off',
    mayLoseLease: true,
    inject: async (context) => {
      const { stage, demand, fraction } = context
      await allVote(context)
      const [node = 0, ...rest] = choose(fraction, NODES, NODES)
      const all = [...stage.links.keys()]
      const known = context.recentKeys(6)
      const { keys, refusals } = await withSecond(async ({ admin, port }) => {
        for (const link of stage.linksTo(node)) link.leadTo(port)
        redial(stage, all, node)
        await demand('the second server has joined', await joinedWithinMs(stage), () =>
          hasJoinedItself(admin),
        )
        await meanwhile(stage)
        await stage.ready(NODES)
        refuse(stage, all, rest.slice(0, 2))
        const recorded = await executed(context, all)
        refuse(stage, all, rest.slice(2))
        reach(stage, all, rest.slice(0, 2))
        for (const link of stage.linksTo(node)) link.heal()
        redial(stage, all, node)
        return { keys: recorded, refusals: await askedAgain(context, all, recorded) }
      })
      reach(stage, all, rest)
      await allVote(context)
      await stillKnown(context, [...known, ...keys], 'after a name has led to another server and back')
      return refusals
    },
  }
}

const half: Fault = {
  id: 'F46c',
  what: 'one or two of three sidecars use another server under the name of a node, while the first one is used',
  how: 'their links lead to a second server for longer than its quarantine (15 s); each side records on a majority and is asked for what the other recorded',
  mayLoseLease: true,
  long: true,
  inject: async (context) => {
    const { stage, fraction } = context
    await allVote(context)
    const [node = 0] = choose(fraction, NODES, 1)
    const moved = choose(fraction, stage.sidecarCount, fraction() < 0.5 ? 1 : 2)
    return patiently(context, async () => {
      const refusals = await halfMoved(context, node, moved)
      await allVote(context)
      return refusals
    })
  },
}

const byTurns: Fault = {
  id: 'F46d',
  what: 'a load balancer leads each new connection to the other of two servers',
  how: 'the links of all sidecars to a node lead to two servers by turns; connections are reset every 1 to 5 s for longer than a quarantine (15 s)',
  mayLoseLease: true,
  long: true,
  inject: async (context) => {
    const { stage, fraction, demand } = context
    await allVote(context)
    const [node = 0] = choose(fraction, NODES, 1)
    return patiently(context, () =>
      withSecond(async ({ admin, port }) => {
        for (const link of stage.linksTo(node)) link.leadTo(link.home, port)
        await during(
          1.5 * LONG_QUARANTINE_MS,
          () => between(fraction, 400, 1_500),
          () => redial(stage, choose(fraction, stage.sidecarCount, 1), node),
        )
        const [one = 0, ...others] = choose(fraction, stage.sidecarCount, stage.sidecarCount)
        stage.link(one, node).leadTo(stage.link(one, node).home)
        for (const sidecar of others) stage.link(sidecar, node).leadTo(port)
        redial(stage, [one, ...others], node)
        await demand('one of the two gets a vote', 3 * LONG_QUARANTINE_MS, async () =>
          (await Promise.all([stage.admin[node], admin].map((its) => its && hasJoinedItself(its)))).some(
            Boolean,
          ),
        )
        await pause(1_000)
        const sides = (await hasJoinedItself(admin)) ? ([others, [one]] as const) : ([[one], others] as const)
        const refusals = await parted(context, node, sides)
        for (const link of stage.linksTo(node)) link.heal()
        redial(stage, others, node)
        await allVote(context)
        return refusals
      }),
    )
  },
}

/** No sidecar that is left has used the first server. */
export const BACK_AMONG_STRANGERS = thereAndBack('F46b', '; all sidecars start again in between', (stage) =>
  stage.restartSidecars(),
)

export const FAULTS_OF_NAMES: readonly Fault[] = [
  thereAndBack('F46a', '', async () => {}),
  BACK_AMONG_STRANGERS,
  half,
  byTurns,
]
