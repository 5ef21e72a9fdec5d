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
  readonly samples: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** Acquisitions of fresh values, one after the other, so that they measure the claim and not the machine's queue. */
async function acquisitions(
  { clients, freshKey }: FaultContext,
  what: string,
  samples: number,
): Promise<Latencies> {
  const tookMs: number[] = []
  for (let at = 0; at < samples; at += 1) {
    const held = await clients.reserve(0, `r-${freshKey()}`, 1_000)
    if (held.type === 'ok' && held.status === 201) tookMs.push(held.endMs - held.startMs)
  }
  tookMs.sort((a, b) => a - b)
  return { what, samples: tookMs.length, p50Ms: quantile(tookMs, 0.5), p99Ms: quantile(tookMs, 0.99) }
}

/** In rounds, healthy and not in turn, so that what else the machine does falls on all of them alike. */
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
  const all = new Map<string, Latencies[]>()
  for (let round = 0; round < rounds; round += 1) {
    for (const { what, on, off } of states) {
      on()
      all.set(what, [...(all.get(what) ?? []), await acquisitions(context, what, samples)])
      off()
      await stage.ready()
    }
  }
  // Of each the median round: one hiccup of the machine must not speak for a state.
  return [...all.values()].map((each) => {
    const sorted = [...each].sort((a, b) => a.p99Ms - b.p99Ms)
    return sorted[Math.floor(sorted.length / 2)] as Latencies
  })
}

function setAll(links: readonly FaultLink[], trouble: Trouble): void {
  for (const link of links) link.set(trouble)
}

export type QuorumLoss = {
  readonly lostForMs: number
  /** From the moment that the nodes go on to the first success of the slowest sidecar. */
  readonly recoveredMs: number
  /** Messages and connections to one node in each second, of all sidecars: index is the node. */
  readonly attemptsPerSecond: readonly (readonly number[])[]
  /** The second in which the nodes came back. */
  readonly backAtSecond: number
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
  for (const node of [0, 1, 2]) stage.servers.pause(node)
  await pause(lostForMs)
  for (const node of [0, 1, 2]) stage.servers.resume(node)
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

/** L2: all 243 combinations of up, refused and hung for five nodes, shared among the sidecars, each on its own links. */
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
