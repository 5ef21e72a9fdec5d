/**
 * Reads against acknowledged calls, exhaustively: for each of a few histories of one record, every state that it can
 * leave on the nodes (which nodes each call reached; an acknowledged one reached a majority), every set of nodes that
 * then replies, and what the read says. As tests, on a number of nodes.
 */
import { describe, expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import type { Clock } from '../../../src/core/clock.ts'
import { SILENT } from '../../../src/core/events.ts'
import type { NodeAnswer, Quorum, ReadResult } from '../../../src/core/ports.ts'
import type { RecordCommand } from '../../../src/core/record/record.ts'
import { EmbeddedNode } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { encodeOutcome } from '../../support/encoded-outcome.ts'
import { seededRandom } from '../../support/seeded-random.ts'

const KEY = 'k'
const START_MS = 1_000_000
const LEASE_MS = 1_000
const TERMS = { keyTtlMs: 60_000, fingerprint: 'f'.repeat(64) }
const [ANN, BOB] = ['a'.repeat(32), 'b'.repeat(32)]
const [T1, T2] = [1_000, 2_000]
const bytes = (result: string) => encodeOutcome({ kind: 'result', result, completedAtWallMs: 0 })

/** One call: what it sends, when, and whether it was acknowledged (it reached a majority) or not (it reached fewer). */
type Call = {
  readonly command: RecordCommand
  readonly atMs: number
  readonly acknowledged: boolean
}
/** What the read may say after all of it; `unavailable` always. */
type History = { readonly calls: readonly Call[]; readonly readAtMs: number; readonly may: readonly string[] }

const claim = (token: number, owner: string) =>
  ({ kind: 'claim', key: KEY, token, owner, leaseMs: LEASE_MS, ...TERMS }) as const
const renew = (token: number, owner: string) =>
  ({ kind: 'renew', key: KEY, token, owner, leaseMs: 3 * LEASE_MS, attempt: 1, ...TERMS }) as const
const complete = (token: number, owner: string, result: string) =>
  ({ kind: 'complete', key: KEY, token, owner, attempt: 1, outcome: bytes(result), ...TERMS }) as const
const release = (token: number, owner: string) =>
  ({ kind: 'release', key: KEY, token, owner, keyTtlMs: TERMS.keyTtlMs }) as const
const done = (command: RecordCommand, atMs = 0): Call => ({ command, atMs, acknowledged: true })
const failed = (command: RecordCommand, atMs = 0): Call => ({ command, atMs, acknowledged: false })

const HISTORIES: Record<string, History> = {
  held: { calls: [done(claim(T1, ANN))], readAtMs: 10, may: ['held by Ann'] },
  'held, while another claimant lost': {
    calls: [done(claim(T1, ANN)), failed(claim(T2, BOB))],
    readAtMs: 10,
    may: ['held by Ann'],
  },
  'held, while another claimant lost and released its grants': {
    calls: [done(claim(T1, ANN)), failed(claim(T2, BOB)), failed(release(T2, BOB))],
    readAtMs: 10,
    may: ['held by Ann'],
  },
  'held and extended, past its first lease': {
    calls: [done(claim(T1, ANN)), done(renew(T1, ANN), 500)],
    readAtMs: 2_000,
    may: ['held by Ann'],
  },
  'held and extended, and its completion was not acknowledged': {
    calls: [done(claim(T1, ANN)), done(renew(T1, ANN), 500), failed(complete(T1, ANN, 'paid'), 600)],
    readAtMs: 2_000,
    may: ['held by Ann', 'completed with paid'],
  },
  expired: { calls: [done(claim(T1, ANN))], readAtMs: 2_000, may: ['expired'] },
  completed: {
    calls: [done(claim(T1, ANN)), done(complete(T1, ANN, 'paid'), 10)],
    readAtMs: 20,
    may: ['completed with paid'],
  },
  'completed after it expired': {
    calls: [done(claim(T1, ANN)), done(complete(T1, ANN, 'paid'), 1_500)],
    readAtMs: 2_000,
    may: ['completed with paid'],
  },
  'completed, and adopted in part by a claimant that missed that': {
    calls: [done(claim(T1, ANN)), done(complete(T1, ANN, 'paid'), 10), failed(complete(T2, BOB, 'paid'), 20)],
    readAtMs: 30,
    may: ['completed with paid'],
  },
  released: {
    calls: [done(claim(T1, ANN)), done(release(T1, ANN), 10)],
    readAtMs: 20,
    may: ['free'],
  },
  'released, and its lease would be over': {
    calls: [done(claim(T1, ANN)), done(release(T1, ANN), 10)],
    readAtMs: 2_000,
    may: ['free'],
  },
  'released, and held by another claimant': {
    calls: [done(claim(T1, ANN)), done(release(T1, ANN), 10), done(claim(T2, BOB), 1_500)],
    readAtMs: 1_600,
    may: ['held by Bob'],
  },
  'expired, and taken over': {
    calls: [done(claim(T1, ANN)), done(claim(T2, BOB), 1_500)],
    readAtMs: 1_600,
    may: ['held by Bob'],
  },
  'expired, taken over, and completed too late by the first holder, unacknowledged': {
    calls: [done(claim(T1, ANN)), done(claim(T2, BOB), 1_500), failed(complete(T1, ANN, 'late'), 1_600)],
    readAtMs: 1_700,
    may: ['held by Bob'],
  },
  'expired, taken over and given back': {
    calls: [done(claim(T1, ANN)), done(claim(T2, BOB), 1_500), done(release(T2, BOB), 1_600)],
    readAtMs: 1_700,
    may: ['expired'],
  },
}

export function testsOfReads(count: number): void {
  describe(`on ${count} nodes a read contradicts no acknowledged call:`, () => {
    const needed = (count + 1) / 2
    const every = subsets(count)

    test.each(Object.entries(HISTORIES))('%s', async (_, history) => {
      const said = new Map<string, number>()
      for (const states of reachable(history.calls, count, needed)) {
        for (const away of every.filter((nodes) => nodes.length < needed)) {
          const read = await readFrom(states, away, history.readAtMs)
          const what = say(read)
          said.set(what, (said.get(what) ?? 0) + 1)
          if (what !== 'unavailable' && !history.may.includes(what))
            expect.fail(
              `${what}, with ${away} away, of ${JSON.stringify(states.map((node) => node.kept(KEY)?.record))}`,
            )
        }
      }
      // With every node up and no message on the way, the read knows.
      for (const may of history.may) expect([...said.keys()]).toContain(may)
    })
  })
}

/** Each state, once, that the calls can leave on the nodes, over all sets of nodes that each call may have reached. */
function reachable(
  calls: readonly Call[],
  count: number,
  needed: number,
): readonly (readonly EmbeddedNode[])[] {
  let paths: (readonly (readonly number[])[])[] = [[]]
  for (const [index, call] of calls.entries()) {
    const longer = new Map<string, readonly (readonly number[])[]>()
    for (const path of paths) {
      for (const reached of subsets(count)) {
        const next = [...path, reached]
        const { nodes, votes } = after(calls.slice(0, index + 1), next, count)
        // An acknowledged call had a majority of votes, any other had fewer.
        if (call.acknowledged !== votes >= needed) continue
        longer.set(JSON.stringify(nodes.map((node) => node.kept(KEY))), next)
      }
    }
    paths = [...longer.values()]
  }
  return paths.map((path) => after(calls, path, count).nodes)
}

let nowMs = START_MS

function after(calls: readonly Call[], path: readonly (readonly number[])[], count: number) {
  const nodes = Array.from({ length: count }, (_, at) => new EmbeddedNode(`${at}`, () => nowMs, 1e9))
  let votes = 0
  for (const [index, { command, atMs }] of calls.entries()) {
    nowMs = START_MS + atMs
    const answers = (path[index] ?? []).map((at) => nodes[at]!.apply(command).kind)
    votes = answers.filter((kind) => kind === VOTE[command.kind]).length
  }
  return { nodes, votes }
}

const VOTE = {
  claim: 'granted',
  renew: 'renewed',
  complete: 'recorded',
  release: 'released',
  read: 'record',
} as const

const CLOCK: Clock = {
  monoMs: () => nowMs,
  wallMs: () => nowMs,
  timer: () => ({ cancel: () => {} }),
}

/** A read changes the nodes where it helps: it looks at copies. */
function readFrom(
  states: readonly EmbeddedNode[],
  away: readonly number[],
  atMs: number,
): Promise<ReadResult> {
  nowMs = START_MS + atMs
  const nodes = states.map((state, at) => {
    const copy = new EmbeddedNode(state.name, () => nowMs, 1e9)
    const kept = state.kept(KEY)
    if (kept !== undefined) copy.put(KEY, kept.record, kept.ttlMs)
    const silent: NodeAnswer = { kind: 'unreachable', reason: 'timeout', detail: 'away' }
    return {
      name: state.name,
      execute: async (command: RecordCommand) => (away.includes(at) ? silent : copy.apply(command)),
    }
  })
  const quorum: Quorum = createRedlockQuorum({ nodes, clock: CLOCK, events: SILENT })
  return createLeases({ quorum, clock: CLOCK, random: seededRandom(1), events: SILENT }).read(KEY)
}

function say(read: ReadResult): string {
  switch (read.kind) {
    case 'absent':
    case 'released':
      return 'free'
    case 'claimed':
      return read.remainingMs === 0 ? 'expired' : `held by ${read.owner === ANN ? 'Ann' : 'Bob'}`
    case 'completed':
      return `completed with ${'result' in read.outcome ? read.outcome.result : ''}`
    case 'unavailable':
    case 'damaged':
      return read.kind
  }
}

function subsets(count: number): readonly (readonly number[])[] {
  return Array.from({ length: 2 ** count }, (_, mask) =>
    Array.from({ length: count }, (_, at) => at).filter((at) => (mask >> at) % 2 === 1),
  )
}
