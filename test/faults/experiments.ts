/**
 * Measurements that a run takes beside its faults: what one slow node costs, how a lost quorum comes back, and that every
 * combination of states of the nodes is answered.
 */

import { type FaultContext, pause } from './fault.ts'
import type { FaultLink, Trouble } from './fault-proxy.ts'
import { monoMs } from './history.ts'
import { ANSWER_WITHIN_MS, NODES } from './stage.ts'

export type Latencies = {
  readonly what: string
  readonly rounds: number
  /** Over all rounds, as are the quantiles. */
  readonly samples: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Every other round against the rest, the larger by the smaller: the effect of the machine alone on a p99. */
  readonly noise: number
}

/** How much slower one late or silent node may make an acquisition. */
export const SLOW_NODE_RATIO_MAX = 1.3

export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** Acquisitions of fresh values, one after the other: they measure the claim, not the machine's queue. */
async function acquisitions(
  { clients, freshKey }: FaultContext,
  samples: number,
): Promise<readonly number[]> {
  const tookMs: number[] = []
  for (let at = 0; at < samples; at += 1) {
    const key = `r-${freshKey()}`
    const held = await clients.reserve(0, key, 1_000)
    if (held.type !== 'ok' || held.status !== 201) continue
    tookMs.push(held.endMs - held.startMs)
    // Thousands that expire would keep the sweeper busy, beside what is measured.
    await clients.end('release', 0, { key, id: held.id, token: held.token })
  }
  return tookMs.sort(ascending)
}

/** In rounds, with the states in turn, so that other work of the machine hits all of them alike. */
export async function oneSlowNode(
  context: FaultContext,
  rounds: number,
  samples: number,
): Promise<readonly Latencies[]> {
  const { stage } = context
  const states = [
    { what: 'healthy', on: () => {}, off: () => {} },
    {
      what: 'one node answers 200 ms late',
      on: () => setAll(stage.linksTo(4), { latencyMs: 100 }),
      off: () => setAll(stage.linksTo(4), {}),
    },
    { what: 'one node hangs', on: () => stage.servers.pause(4), off: () => stage.servers.resume(4) },
  ]
  const all = states.map(({ what }) => ({ what, each: [] as (readonly number[])[] }))
  for (let round = 0; round < rounds; round += 1) {
    for (let turn = 0; turn < states.length; turn += 1) {
      // Each state comes first, second and last equally often.
      const at = (turn + round) % states.length
      states[at]?.on()
      all[at]?.each.push(await acquisitions(context, samples))
      states[at]?.off()
      await stage.ready()
    }
  }
  return all.map(({ what, each }) => {
    const together = each.flat().sort(ascending)
    const halves = [0, 1].map((half) => p99Of(each.filter((_, round) => round % 2 === half)))
    return {
      what,
      rounds,
      samples: together.length,
      p50Ms: quantile(together, 0.5),
      p99Ms: quantile(together, 0.99),
      noise: Math.max(...halves) / Math.min(...halves),
    }
  })
}

function p99Of(rounds: readonly (readonly number[])[]): number {
  return quantile(rounds.flat().sort(ascending), 0.99)
}

function ascending(a: number, b: number): number {
  return a - b
}

function setAll(links: readonly FaultLink[], trouble: Trouble): void {
  for (const link of links) link.set(trouble)
}

export type QuorumLoss = {
  readonly lostForMs: number
  /** From the return of the nodes to the first success of the slowest sidecar. */
  readonly recoveredMs: number
  /** Messages and connections to one node in each second, of all sidecars: index is the node. */
  readonly attemptsPerSecond: readonly (readonly number[])[]
  /** The second in which the nodes came back. */
  readonly backAtSecond: number
}

/** The nodes that are stopped. */
const LOST_NODES = [0, 1, 2]

/**
 * The most messages to one node in one second: without a loss (before it, and after it), to a stopped node, and in the
 * two seconds of the return. The volume depends on the machine's speed.
 */
export function messagesPerSecond({ attemptsPerSecond, backAtSecond, lostForMs }: QuorumLoss): {
  readonly ordinary: number
  readonly meanwhile: number
  readonly returning: number
} {
  const lostAtSecond = backAtSecond - Math.round(lostForMs / 1_000)
  const most = (nodes: readonly (readonly number[])[], from: number, until?: number) =>
    Math.max(0, ...nodes.flatMap((seconds) => seconds.slice(from, until)))
  const lost = attemptsPerSecond.filter((_, node) => LOST_NODES.includes(node))
  return {
    ordinary: Math.max(most(attemptsPerSecond, 0, lostAtSecond), most(attemptsPerSecond, backAtSecond + 2)),
    // From the third second on: until then no sidecar can know.
    meanwhile: most(lost, lostAtSecond + 3, backAtSecond),
    returning: most(attemptsPerSecond, backAtSecond, backAtSecond + 2),
  }
}

export async function quorumLoss(context: FaultContext, lostForMs: number): Promise<QuorumLoss> {
  const { stage, clients, freshKey } = context
  const counts = Array.from({ length: NODES }, () => [0])
  for (const [node, seconds] of counts.entries()) {
    for (const link of stage.linksTo(node)) {
      link.onBytes = ({ direction }) => {
        if (direction === 'out') seconds[seconds.length - 1] = (seconds.at(-1) ?? 0) + 1
      }
    }
  }
  const tick = setInterval(() => {
    for (const seconds of counts) seconds.push(0)
  }, 1_000)
  await pause(3_000)
  for (const node of LOST_NODES) stage.servers.pause(node)
  await pause(lostForMs)
  for (const node of LOST_NODES) stage.servers.resume(node)
  const backMs = monoMs()
  const backAtSecond = (counts[0]?.length ?? 1) - 1
  const recovered = await Promise.all(
    stage.sidecars.map(async (_, sidecar) => {
      while (monoMs() - backMs < 30_000) {
        const answer = await clients.submit({ sidecar, key: freshKey() })
        if (answer.type === 'ok' && answer.status === 201) return monoMs() - backMs
        await pause(20)
      }
      return Number.POSITIVE_INFINITY
    }),
  )
  await pause(4_000)
  clearInterval(tick)
  for (const link of stage.links.flat()) link.onBytes = undefined
  return { lostForMs, recoveredMs: Math.max(...recovered), attemptsPerSecond: counts, backAtSecond }
}

export type Combination = { readonly states: string; readonly tookMs: number; readonly answer: string }

/** L2: all 243 combinations of up, refused and hung for five nodes, split among the sidecars, each on its own links. */
export async function allCombinations(context: FaultContext): Promise<readonly Combination[]> {
  const { stage, clients, freshKey } = context
  const results: Combination[] = []
  await Promise.all(
    stage.sidecars.map(async (_, sidecar) => {
      for (let number = sidecar; number < 3 ** NODES; number += stage.sidecarCount) {
        const states = number.toString(3).padStart(NODES, '0')
        for (let node = 0; node < NODES; node += 1) {
          const link = stage.link(sidecar, node)
          link.set(states[node] === '0' ? {} : states[node] === '1' ? { refuse: true } : { hold: 'both' })
        }
        const answer = await clients.submit({ sidecar, key: freshKey() })
        const said = answer.type === 'ok' ? `${answer.status}` : answer.reason
        results.push({ states, tookMs: answer.endMs - answer.startMs, answer: said })
      }
      for (const link of stage.links[sidecar] ?? []) link.heal()
    }),
  )
  return results.sort((a, b) => a.states.localeCompare(b.states))
}

export function unanswered(combinations: readonly Combination[]): readonly Combination[] {
  return combinations.filter(({ tookMs, answer }) => tookMs > ANSWER_WITHIN_MS || !/^\d{3}$/.test(answer))
}
