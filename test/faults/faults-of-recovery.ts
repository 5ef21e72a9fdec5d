/**
 * F39, F41 to F43: processes, calls and rejoins that outlast a quarantine or a hand-over; and nodes that run out of
 * memory.
 */

import type { Mode } from './application.ts'
import { choose, type Fault, type FaultContext, pause } from './fault.ts'
import { allVote, configured, errorsOf, joinedWithinMs, recorded, refused, stillKnown } from './of-nodes.ts'
import { ANSWER_WITHIN_MS, LEASE_MS, NODES, QUARANTINE_MS, type Stage } from './stage.ts'

/** Calls once when `count` nodes have answered the sidecar with the word; the bytes are still on their way. */
function onceAnswered({ stage }: FaultContext, sidecar: number, word: string, count: number): Promise<void> {
  const heard = new Set<number>()
  return new Promise((resolve) => {
    for (const [node, link] of (stage.links[sidecar] ?? []).entries()) {
      link.onBytes = ({ direction, bytes }) => {
        if (direction !== 'back' || !bytes.includes(word)) return
        heard.add(node)
        if (heard.size === count) resolve()
      }
    }
  })
}

function forgetLinks({ stage }: FaultContext): void {
  for (const link of stage.links.flat()) link.onBytes = undefined
}

const LONGER_THAN_QUARANTINE_MS = QUARANTINE_MS + 2_000

/**
 * The victim stops with the first answers to its record waiting. Two of the three nodes that have the record forget it,
 * and vote again; then the victim resumes, and must not count their earlier answers.
 */
const frozenSidecar: Fault = {
  id: 'F39a',
  what: 'a sidecar stands still for longer than the quarantine, with answers waiting of nodes that forget meanwhile',
  how: 'its links to two nodes hold; SIGSTOP as the first `recorded` passes; FLUSHALL on two that recorded; SIGCONT when they vote again',
  mayLoseLease: true,
  inject: async (context) => {
    const { stage, clients, freshKey, fraction, demand } = context
    const victim = stage.sidecarCount - 1
    await demand('a sidecar serves when the fault before it has passed', LEASE_MS + 10_000, async () => {
      const answer = await clients.submit({ sidecar: victim, key: freshKey() })
      return answer.type === 'ok' && answer.status === 201
    })
    const key = freshKey()
    const script: readonly Mode[] = ['slow:800']
    const order = choose(fraction, NODES, NODES)
    const first = clients.submit({ sidecar: victim, key, script })
    await demand('the application works', ANSWER_WITHIN_MS, async () =>
      stage.application.executions().some((one) => one.key === key),
    )
    for (const node of order.slice(3)) stage.link(victim, node).set({ hold: 'out' })
    await Promise.race([onceAnswered(context, victim, 'recorded', 1), pause(5_000)])
    stage.sidecar(victim).process.signal('SIGSTOP')
    forgetLinks(context)
    await pause(300)
    for (const node of order.slice(0, 2)) await stage.admin[node]?.flushall()
    for (const node of order.slice(3)) stage.link(victim, node).reset()
    await pause(LONGER_THAN_QUARANTINE_MS)
    const others = stage.sidecars.keys().filter((index) => index !== victim)
    await demand('the nodes vote again', await joinedWithinMs(stage), async () => {
      const votes = await Promise.all([...others].map((index) => stage.votingNodes(index)))
      return votes.every((count) => count === NODES)
    })
    await clients.submit({ sidecar: 0, key, script })
    stage.sidecar(victim).process.signal('SIGCONT')
    await first
    for (const link of stage.links[victim] ?? []) link.heal()
    await demand('its request is answered by each sidecar alike', LEASE_MS + ANSWER_WITHIN_MS, async () => {
      const answers = await Promise.all(
        stage.sidecars.map((_, sidecar) => clients.submit({ sidecar, key, script })),
      )
      return answers.every((one) => one.type === 'ok' && one.status === 201)
    })
    await allVote(context)
    return 1
  },
}

const frozenNodes: Fault = {
  id: 'F39b',
  what: 'two nodes stand still for longer than the quarantine',
  how: 'SIGSTOP of two nodes, SIGCONT a quarantine and two seconds later, with what was sent to them meanwhile',
  inject: async (context) => {
    const { stage, fraction } = context
    const nodes = choose(fraction, NODES, 2)
    for (const node of nodes) stage.servers.pause(node)
    await pause(LONGER_THAN_QUARANTINE_MS)
    await stillKnown(context, context.recentKeys(6), 'while two nodes stand still')
    for (const node of nodes) stage.servers.resume(node)
    await allVote(context)
    return nodes.length
  },
}

/**
 * One sidecar has begun to copy records to a node that forgot, and its next calls are held. Another one completes the
 * rejoin; the node votes, and makes new promises; then the calls of the first arrive.
 */
const twoRejoins: Fault = {
  id: 'F41',
  what: 'two sidecars bring one node back: the calls of the first arrive when it votes again',
  how: 'FLUSHALL on one node; the link of the sidecar that brings it back holds what it sends from its first `adopted` on, until the node votes',
  inject: async (context) => {
    const { stage, fraction, demand } = context
    await allVote(context)
    const [node = 0] = choose(fraction, NODES, 1)
    let rejoining = -1
    for (const [sidecar, links] of stage.links.entries()) {
      const link = links[node]
      if (link === undefined) continue
      link.onBytes = ({ direction, bytes }) => {
        if (rejoining !== -1 || direction !== 'back' || !bytes.includes('adopted')) return
        rejoining = sidecar
        link.set({ hold: 'out' })
      }
    }
    await stage.admin[node]?.flushall()
    await demand('a sidecar brings it back', QUARANTINE_MS + 30_000, async () => rejoining !== -1)
    forgetLinks(context)
    if (rejoining === -1) return 0
    const held = stage.link(rejoining, node)
    await demand('another one goes on, and the node votes', await joinedWithinMs(stage), async () => {
      const others = [...stage.sidecars.keys()].filter((index) => index !== rejoining)
      const votes = await Promise.all(others.map((index) => stage.votingNodes(index)))
      return votes.every((count) => count === NODES)
    })
    // Promises that the late calls must not take back.
    await pause(1_000)
    const bites = held.troubled
    held.heal()
    await pause(1_000)
    await allVote(context)
    await stillKnown(context, context.recentKeys(12), 'after two rejoins')
    return bites
  },
}

/** A call of the first holder is held while its lease ends and another session is granted; then it arrives. */
async function acrossHandOver(
  context: FaultContext,
  f: 'extend' | 'release' | 'complete',
): Promise<() => Promise<void>> {
  const { clients, demand, freshKey } = context
  const key = `r-${freshKey()}`
  const first = await clients.reserve(0, key, 1_500)
  if (first.token === undefined) return async () => {}
  for (const link of context.stage.links[0] ?? []) link.set({ hold: 'out' })
  await clients.end(f, 0, { key, id: first.id, token: first.token })
  let second = await clients.reserve(1, key, LEASE_MS)
  await demand('an unrenewed lease ends', LEASE_MS + 10_000, async () => {
    second = await clients.reserve(1, key, LEASE_MS)
    return second.type === 'ok' && (second.status === 201 || second.code === 'reservation-duplicate')
  })
  return async () => {
    const held = { key, id: second.id, token: second.token }
    await clients.standing(1, key)
    await clients.standing(2 % context.stage.sidecarCount, key)
    if (second.token !== undefined) await clients.end('extend', 1, held)
    // Sent again, as a client does after "not known".
    await clients.end(f, 2 % context.stage.sidecarCount, { key, id: first.id, token: first.token })
    await clients.standing(0, key)
    if (second.token !== undefined) await clients.end('complete', 1, held)
    for (const sidecar of context.stage.sidecars.keys()) {
      await clients.reserve(sidecar, key, 1_000)
      await clients.standing(sidecar, key)
    }
  }
}

const delayedCalls: Fault = {
  id: 'F42',
  what: 'calls of a holder arrive after its value was handed over',
  how: 'the links of one sidecar hold an extension, a release, a completion; another session reserves after the lease; then they arrive',
  mayLoseLease: true,
  inject: async (context) => {
    const { stage } = context
    const before = stage.links[0]?.reduce((sum, link) => sum + link.troubled, 0) ?? 0
    for (const f of ['extend', 'release', 'complete'] as const) {
      const then = await acrossHandOver(context, f)
      for (const link of stage.links[0] ?? []) link.heal()
      await pause(300)
      await then()
    }
    return (stage.links[0]?.reduce((sum, link) => sum + link.troubled, 0) ?? 0) - before
  },
}

/** The used share of a node's memory, in per cent: no room for new claims, but for requests under way. */
const NEARLY_FULL = 93

async function limitMemory(stage: Stage, nodes: readonly number[], used: number): Promise<void> {
  for (const node of nodes) {
    const about = (await stage.admin[node]?.info('memory')) ?? ''
    const bytes = Number(/used_memory:(\d+)/.exec(about)?.[1] ?? 0)
    await stage.admin[node]?.config('SET', 'maxmemory', String(Math.floor((bytes * 100) / used)))
  }
}

const fullMemory: Fault = {
  id: 'F43',
  what: 'three nodes come to the end of their memory under load',
  how: 'CONFIG SET maxmemory to what makes them 93 % full, then to less than they use, with requests under way and duplicates of recorded ones',
  mayLoseLease: true,
  inject: async (context) => {
    const { stage, clients, demand, fraction, freshKey } = context
    const nodes = choose(fraction, NODES, 3)
    const before = await errorsOf(stage, nodes, 'OOM')
    const keys = context.recentKeys(6)
    const script = ['slow:2500'] as const
    const underWay = [0, 1, 2].map((at) =>
      clients.submit({ sidecar: at % stage.sidecarCount, key: freshKey(), script }),
    )
    await pause(400)
    await limitMemory(stage, nodes, NEARLY_FULL)
    let refusals = 0
    await demand('nodes that are nearly full take no new claims', 8_000, async () => {
      const is = await refused(context)
      if (is) refusals += 1
      return is
    })
    const ended = await Promise.all(underWay)
    await demand('requests under way are recorded on nodes that are nearly full', 1, async () =>
      ended.every((one) => one.type === 'ok' && one.says === 'created'),
    )
    await configured(stage, nodes, 'maxmemory', ['1', '0'], () =>
      stillKnown(context, keys, 'on nodes without memory'),
    )
    await demand('with memory again every request is recorded', 10_000, () => recorded(context))
    return refusals + (await errorsOf(stage, nodes, 'OOM')) - before
  },
}

export const FAULTS_OF_RECOVERY: readonly Fault[] = [
  frozenSidecar,
  frozenNodes,
  twoRejoins,
  delayedCalls,
  fullMemory,
]
