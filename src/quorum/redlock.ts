/**
 * Rounds on N nodes, run by redlock. The only file that knows redlock.
 *
 * redlock sends an operation to every client, counts distinct clients that voted for it, and decides at a majority. Its
 * clients here are adapters in front of `RecordNode`s: an adapter hands the node the command of the round, keeps the rich
 * answer, and gives redlock the number that it counts (the number of resources: for) or a typed error (against). So
 * there is one count of votes, and it runs over Redis and embedded nodes alike.
 *
 * What redlock 5.0.0-beta.2 does that must not reach us, and what stands against it:
 *  - it dates a lease from its first attempt, does not check validity, and does not release between its own attempts:
 *    `retryCount: 0`, and the caller (`core/claims/claim.ts`) times, validates, releases and repeats;
 *  - after a refused acquire it waits for a release round: the adapters answer that round at once, and the caller releases
 *    where something was granted;
 *  - it ignores scripts that are strings and would send its own: scripts are functions;
 *  - it has no deadline for a node: every `RecordNode` has one of its own and never rejects;
 *  - an even number of nodes may never settle: refused here;
 *  - `using()` aborts late or never and extends in a hot loop: not used, see `core/claims/lease-keeper.ts`.
 */

import Redlock, { ExecutionError, Lock } from 'redlock'
import { answered } from '../core/claims/quorum.ts'
import type { Events } from '../core/events.ts'
import type { Clock, NodeAnswer, Quorum, RecordNode, Round } from '../core/ports.ts'
import type { RecordCommand } from '../core/record/record.ts'
import { majorityOf } from '../core/units.ts'

/** Fewest and most nodes: below three nothing may fail, above nine every claim pays for nodes that add little. */
export const NODES_MIN = 3
export const NODES_MAX = 9

/** The answer with which a node votes for a command. */
const VOTE_FOR = {
  claim: 'granted',
  renew: 'renewed',
  complete: 'recorded',
  release: 'released',
  read: 'record',
} as const

/** What redlock is given as scripts: names, because the node builds its own call. Functions, or redlock ignores them. */
const OPERATION = { acquire: 'acquire', extend: 'extend', release: 'release' } as const

/** A vote against, for redlock, which tells it from a vote for by the exception. One object: its stack says nothing. */
const AGAINST = new Error('this node votes against')

/** A lease that redlock did not acquire itself never counts as lapsed to it: the caller judges validity. */
const NEVER_MS = Number.MAX_SAFE_INTEGER

type OpenRound = {
  readonly command: RecordCommand
  readonly skip: ReadonlySet<number>
  readonly answers: (NodeAnswer | undefined)[]
  readonly heard: (index: number, answer: NodeAnswer) => void
}

export type RedlockQuorumOptions = {
  readonly nodes: readonly RecordNode[]
  readonly clock: Clock
  readonly events: Events
}

/**
 * @throws RangeError where the number of nodes is even, below 3 (one alone is allowed: a quorum of one), or above 9, or
 *   where one is given twice
 */
export function createRedlockQuorum({ nodes, clock, events }: RedlockQuorumOptions): Quorum {
  const nodeCount = nodes.length
  if (nodeCount !== 1 && (nodeCount % 2 === 0 || nodeCount < NODES_MIN || nodeCount > NODES_MAX)) {
    throw new RangeError(
      `${nodeCount} nodes: an odd number from ${NODES_MIN} to ${NODES_MAX} is needed, because half of an even number decides nothing`,
    )
  }
  if (new Set(nodes).size !== nodeCount) throw new RangeError('one node is given twice, and would vote twice')
  const open = new Map<string, OpenRound>()
  let roundCount = 0

  const voters = nodes.map((node, index) =>
    createVoter(node, index, open, (operation) => operation === redlock.scripts.releaseScript.hash),
  )
  const redlock: Redlock = new Redlock(
    // redlock wants ioredis clients and uses two methods of them.
    voters as unknown as ConstructorParameters<typeof Redlock>[0],
    { retryCount: 0, driftFactor: 0, retryDelay: 0, retryJitter: 0 },
    {
      acquireScript: () => OPERATION.acquire,
      extendScript: () => OPERATION.extend,
      releaseScript: () => OPERATION.release,
    },
  )

  /** The vote: true where a majority of distinct nodes is for the command, false where it no longer can be. */
  async function vote(id: string, command: RecordCommand): Promise<boolean> {
    try {
      switch (command.kind) {
        case 'claim':
          await redlock.acquire([id], command.leaseMs)
          return true
        case 'renew':
          await redlock.extend(new Lock(redlock, [id], command.owner, [], NEVER_MS), command.leaseMs)
          return true
        case 'complete':
          await redlock.extend(new Lock(redlock, [id], command.owner, [], NEVER_MS), command.keyTtlMs)
          return true
        case 'release':
          await redlock.release(new Lock(redlock, [id], command.owner, [], NEVER_MS))
          return true
        case 'read':
          return await majorityAnswers(voters, id)
      }
    } catch (cause) {
      if (cause instanceof ExecutionError) return false
      throw cause
    }
  }

  async function run(command: RecordCommand, skip: ReadonlySet<number> = NOBODY): Promise<Round> {
    const startedMonoMs = clock.monoMs()
    roundCount += 1
    const id = String(roundCount)
    const answers: (NodeAnswer | undefined)[] = new Array(nodeCount).fill(undefined)
    const settled = Promise.withResolvers<void>()
    let missing = nodeCount - skip.size
    if (missing === 0) settled.resolve()
    const heard = (index: number, answer: NodeAnswer) => {
      answers[index] = answer
      missing -= 1
      if (missing === 0) settled.resolve()
    }
    open.set(id, { command, skip, answers, heard })
    const carried = await vote(id, command)
    void settled.promise.then(() => {
      open.delete(id)
      const votes = skip.size + answers.filter((answer) => answer?.kind === VOTE_FOR[command.kind]).length
      events.publish({
        kind: 'round_settled',
        command: command.kind,
        carried,
        answered: skip.size + answered(answers).length,
        votes,
        margin: votes - majorityOf(nodeCount),
        durationMs: clock.monoMs() - startedMonoMs,
      })
    })
    return { carried, answers, settled: settled.promise }
  }

  return { nodeCount, run }
}

const NOBODY: ReadonlySet<number> = new Set()

/** What redlock takes for a Redis client. */
type Voter = { evalsha(operation: string, keyCount: number, args: readonly unknown[]): Promise<number> }

function createVoter(
  node: RecordNode,
  index: number,
  open: ReadonlyMap<string, OpenRound>,
  isRelease: (operation: string) => boolean,
): Voter {
  return {
    async evalsha(operation, keyCount, args) {
      const round = open.get(String(args[0]))
      if (round === undefined || round.skip.has(index)) return keyCount
      // redlock's own release after a refused claim. The claimant releases, and only where something was granted.
      if (round.command.kind === 'claim' && isRelease(operation)) return keyCount
      // A node never rejects. Were one to break that rule, the round must settle all the same.
      const answer = await node.execute(round.command).catch(
        (cause: unknown): NodeAnswer => ({
          kind: 'unreachable',
          reason: 'error',
          detail: cause instanceof Error ? cause.message : String(cause),
        }),
      )
      round.heard(index, answer)
      if (answer.kind !== VOTE_FOR[round.command.kind]) throw AGAINST
      return keyCount
    },
  }
}

/** redlock has no word for reading. Same rule: decided by the majority that answers, or by the majority that can't. */
function majorityAnswers(voters: readonly Voter[], id: string): Promise<boolean> {
  const needed = majorityOf(voters.length)
  return new Promise((resolve) => {
    let votesFor = 0
    let votesAgainst = 0
    for (const voter of voters) {
      voter.evalsha('read', 1, [id]).then(
        () => {
          votesFor += 1
          if (votesFor === needed) resolve(true)
        },
        () => {
          votesAgainst += 1
          if (votesAgainst === needed) resolve(false)
        },
      )
    }
  })
}
