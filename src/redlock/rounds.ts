/**
 * Rounds on N nodes: redlock runs those that take, extend and release a lock. The only file that knows redlock.
 *
 * redlock sends an operation to every client, counts distinct clients that voted for it, and decides at a majority. Its
 * clients here are adapters in front of `RecordNode`s: an adapter hands the node the command of the round, keeps the
 * full answer, and gives redlock the number that it counts (the number of resources: for) or a typed error (against).
 * So there is one count of votes, and it runs over Redis and embedded nodes alike.
 *
 * What redlock 5.0.0-beta.2 does that must not reach us, and what prevents it:
 *  - it dates a lease from its first attempt, does not check validity, and does not release between its own attempts:
 *    `retryCount: 0`, and the caller (`core/claims/claim.ts`) times, validates, releases and repeats;
 *  - after a refused acquire it waits for a release round: the adapters answer that round at once, and the caller
 *    releases where a node granted;
 *  - it ignores scripts that are strings and would send its own: scripts are functions;
 *  - it has no deadline for a node: every `RecordNode` has one of its own and never rejects;
 *  - an even number of nodes may never settle: refused here;
 *  - `using()` aborts late or never and extends in a hot loop: not used, see `core/claims/lease-renewer.ts`.
 */

import Redlock, { ExecutionError, Lock } from 'redlock'
import type { Clock } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import { errorText } from '../core/fault.ts'
import type { NodeAnswer, Quorum, RecordNode, Round } from '../core/ports.ts'
import { answered } from '../core/quorum/tally.ts'
import type { RecordCommand } from '../core/record/record.ts'
import { majorityOf } from '../core/units.ts'

/** Fewest and most nodes: below three none may fail, above nine every claim pays for nodes that add little. */
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

/** The scripts of redlock: names, because the node builds its own call. Functions, or redlock ignores them. */
const OPERATION = { acquire: 'acquire', extend: 'extend', release: 'release' } as const

/** A vote against: redlock distinguishes votes by the exception. One object: its stack says nothing. */
const AGAINST = new Error('this node votes against')

/** What redlock takes for the value of a lock. The node is sent the owner of the claim. */
const UNUSED_VALUE = ''

/** So that redlock never takes a lease as expired: the caller judges validity. */
const NEVER_MS = Number.MAX_SAFE_INTEGER

/** A round under way. redlock carries it, as the requested resource, to each of its clients. */
class OpenRound implements Round {
  readonly command: RecordCommand
  readonly skip: ReadonlySet<number>
  readonly answers: (NodeAnswer | undefined)[]
  readonly #done: (round: OpenRound) => void
  /** Nodes that have not answered yet. */
  #missing: number
  #votesFor: number
  #verdict: boolean | undefined
  #settled: PromiseWithResolvers<void> | undefined

  /** @param done called once, when redlock has decided and every node has answered */
  constructor(
    command: RecordCommand,
    skip: ReadonlySet<number>,
    nodeCount: number,
    done: (round: OpenRound) => void,
  ) {
    this.command = command
    this.skip = skip
    this.answers = new Array(nodeCount).fill(undefined)
    this.#done = done
    this.#missing = nodeCount - skip.size
    this.#votesFor = skip.size
  }

  get majorityReached(): boolean {
    return this.#verdict === true
  }

  /** For the event of the round; redlock alone decides whether a majority was reached. */
  get votesFor(): number {
    return this.#votesFor
  }

  get settled(): Promise<void> {
    if (this.#missing === 0) return SETTLED
    this.#settled ??= Promise.withResolvers<void>()
    return this.#settled.promise
  }

  decided(verdict: boolean): this {
    this.#verdict = verdict
    if (this.#missing === 0) this.#done(this)
    return this
  }

  /** @returns whether it is a vote for the command */
  heard(index: number, answer: NodeAnswer): boolean {
    this.answers[index] = answer
    const isFor = answer.kind === VOTE_FOR[this.command.kind]
    if (isFor) this.#votesFor += 1
    this.#missing -= 1
    if (this.#missing === 0) {
      if (this.#verdict !== undefined) this.#done(this)
      this.#settled?.resolve()
    }
    return isFor
  }

  /** A node never rejects. If one broke that rule, the round must settle all the same. */
  failed(index: number, cause: unknown): boolean {
    const detail = errorText(cause)
    return this.heard(index, { kind: 'unreachable', reason: 'error', detail })
  }
}

const SETTLED = Promise.resolve()

/** One per round: the round itself. */
const RESOURCES = 1
const VOTES_FOR = Promise.resolve(RESOURCES)

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
  const voters = nodes.map((node, index) =>
    createVoter(node, index, (operation) => operation === redlock.scripts.releaseScript.hash),
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
  // For each acquire it draws 16 bytes from the operating system, as the value of a lock. Our claims have drawn their owner, nothing reads
  // the value, and in a profile the draw took 10 to 12 µs of a request.
  Object.assign(redlock, { _random: () => UNUSED_VALUE })

  /** True where a majority of distinct nodes is for the command, false where none can be any more. */
  async function vote(round: OpenRound): Promise<boolean> {
    const { command } = round
    // redlock only hands on what it takes for the names of resources.
    const resources = [round as unknown as string]
    try {
      switch (command.kind) {
        case 'claim':
          await redlock.acquire(resources, command.leaseMs)
          return true
        case 'renew':
          await redlock.extend(new Lock(redlock, resources, command.owner, [], NEVER_MS), command.leaseMs)
          return true
        case 'release':
          await redlock.release(new Lock(redlock, resources, command.owner, [], NEVER_MS))
          return true
        case 'complete':
        case 'read':
          return await majority(nodes, round)
      }
    } catch (cause) {
      if (cause instanceof ExecutionError) return false
      throw cause
    }
  }

  async function run(command: RecordCommand, skip: ReadonlySet<number> = NO_NODES): Promise<Round> {
    const startedMonoMs = clock.monoMs()
    const round = new OpenRound(command, skip, nodeCount, ({ majorityReached, answers, votesFor }) =>
      events.publish({
        kind: 'round_settled',
        command: command.kind,
        recordKey: command.key,
        majorityReached,
        answered: skip.size + answered(answers).length,
        votes: votesFor,
        margin: votesFor - majorityOf(nodeCount),
        durationMs: clock.monoMs() - startedMonoMs,
      }),
    )
    return round.decided(await vote(round))
  }

  return { nodeCount, run }
}

const NO_NODES: ReadonlySet<number> = new Set()

/** What redlock takes for a Redis client. */
type Voter = { evalsha(operation: string, keyCount: number, args: readonly unknown[]): Promise<number> }

function createVoter(node: RecordNode, index: number, isRelease: (operation: string) => boolean): Voter {
  return {
    evalsha(operation, _keyCount, args) {
      const round = args[0] as OpenRound
      if (round.skip.has(index)) return VOTES_FOR
      // redlock's own release after a refused claim. The claimant releases, and only where a node granted.
      if (round.command.kind === 'claim' && isRelease(operation)) return VOTES_FOR
      return node.execute(round.command).then(
        (answer) => counted(round.heard(index, answer)),
        (cause: unknown) => counted(round.failed(index, cause)),
      )
    },
  }
}

/**
 * @returns the number of resources, which redlock takes for a vote for
 * @throws Error which redlock takes for a vote against
 */
function counted(isFor: boolean): number {
  if (isFor) return RESOURCES
  throw AGAINST
}

/**
 * redlock has no operation for completing and for reading: neither locks. Same rule: a majority for it or a majority
 * against it decides.
 */
function majority(nodes: readonly RecordNode[], round: OpenRound): Promise<boolean> {
  const needed = majorityOf(nodes.length)
  return new Promise((resolve) => {
    let inFavour = 0
    let opposed = 0
    const count = (isFor: boolean) => {
      if (isFor) inFavour += 1
      else opposed += 1
      if (isFor ? inFavour === needed : opposed === needed) resolve(isFor)
    }
    for (const [index, node] of nodes.entries()) {
      if (round.skip.has(index)) count(true)
      else
        node.execute(round.command).then(
          (answer) => count(round.heard(index, answer)),
          (cause: unknown) => count(round.failed(index, cause)),
        )
    }
  })
}
