/**
 * An independent count: what the nodes executed, against what a claimant believes that they did.
 *
 * Owns the checks that need no end of the history: a grant, a renewal and a recorded completion each stand on a majority
 * of distinct voting nodes (S13), and a stale holder's commands change nothing (S8).
 */

import type { Lease } from '../../src/core/ports.ts'
import type { NodeRecord } from '../../src/core/record/record.ts'
import type { History } from './history.ts'
import type { Executed } from './node.ts'
import { contentOfBytes } from './sidecar.ts'

export class Votes {
  readonly #history: History
  /** Per group: a record stands on one group. */
  readonly #nodeCount: number
  readonly #nowMs: () => number
  readonly #votes = new Map<string, Map<number, number>>()
  /** The ballots under which an outcome was recorded: its holder's, and those of claimants that adopted it. */
  readonly #ballots = new Map<string, Set<string>>()

  constructor(history: History, nodeCount: number, nowMs: () => number) {
    this.#history = history
    this.#nodeCount = nodeCount
    this.#nowMs = nowMs
  }

  readonly executed = (executed: Executed): void => {
    const { node, command, answer, voting, before, after } = executed
    if (command.kind === 'read') return
    if (command.kind !== 'claim') this.#checkPowerless(executed)
    if (before !== undefined && (after === undefined || after.fence < before.fence)) {
      this.#violated('S4', `node-${node} lowered a fence on ${command.kind}`)
    }
    if (voting && (answer.kind === 'granted' || answer.kind === 'renewed' || answer.kind === 'recorded')) {
      this.#vote(voteId(answer.kind, command), node)
    }
    // Also a node that accepted it without a vote: joined with no larger promise, it counts for it.
    if (voting && after?.state === 'completed' && after.copied === undefined) {
      const outcome = outcomeId(command.key, after.outcome)
      const ballot = `${after.acceptedToken} ${outcome}`
      this.#vote(ballot, node)
      this.#ballots.set(outcome, (this.#ballots.get(outcome) ?? new Set()).add(ballot))
    }
  }

  /** A command below the fence, or with the fence's token and another owner, must leave the record as it is. */
  #checkPowerless({ node, command, before, after }: Executed): void {
    if (command.kind === 'read' || before === undefined || before === after) return
    // What is left of an outcome that is over is shown as a release, made anew at each look.
    if (before.state === 'released' && after?.state === 'released' && before.fence === after.fence) return
    const holds = before.state !== 'released' && before.owner === command.owner
    const below = command.token < before.fence
    const foreign = command.token === before.fence && before.state !== 'released' && !holds
    const alive =
      command.kind === 'renew' && before.state === 'completed' && before.acceptedToken !== command.token
    const thief = command.kind === 'release' && !command.forgets && before.state !== 'released' && !holds
    if (below || foreign || alive || thief) {
      this.#violated('S8', `node-${node}: ${command.kind} of token ${command.token} changed ${show(before)}`)
    }
  }

  checkGrant(lease: Lease, grantedMs: number, monoMs: number): void {
    const count = this.#votes.get(voteId('granted', lease))?.size ?? 0
    if (count * 2 <= this.#nodeCount) {
      this.#violated('S13', `token ${lease.token} was granted by ${count} of ${this.#nodeCount} voting nodes`)
    }
    if (lease.validUntilMonoMs <= monoMs) {
      this.#violated('S13', `token ${lease.token} was handed out at ${grantedMs}, after its end`)
    }
  }

  checkRenewal(lease: Lease, startedMs: number, endedMs: number, monoMs: number): void {
    const votes = this.#votes.get(voteId('renewed', lease)) ?? new Map()
    const count = [...votes.values()].filter((atMs) => atMs >= startedMs && atMs <= endedMs).length
    if (count * 2 <= this.#nodeCount) {
      this.#violated('S13', `token ${lease.token} was renewed by ${count} of ${this.#nodeCount} voting nodes`)
    }
    if (lease.validUntilMonoMs <= monoMs)
      this.#violated('S13', `token ${lease.token} was renewed after its end`)
  }

  /** Under the holder's own token or an adopter's: a majority of one ballot, not of several together. */
  checkRecorded(lease: Pick<Lease, 'key' | 'token' | 'owner'>, outcome: Buffer): void {
    const adopted = this.#ballots.get(outcomeId(lease.key, outcome)) ?? []
    const ballots = [voteId('recorded', lease), ...adopted]
    const count = Math.max(...ballots.map((ballot) => this.#votes.get(ballot)?.size ?? 0))
    if (count * 2 <= this.#nodeCount) {
      this.#violated(
        'S12',
        `token ${lease.token} was recorded by ${count} of ${this.#nodeCount} voting nodes`,
      )
    }
  }

  #vote(id: string, node: number): void {
    const votes = this.#votes.get(id) ?? new Map<number, number>()
    votes.set(node, this.#nowMs())
    this.#votes.set(id, votes)
  }

  #violated(invariant: string, detail: string): void {
    this.#history.violated(invariant, this.#nowMs(), detail)
  }
}

/** Several records may be held by one owner under one token. */
function voteId(kind: string, { key, token, owner }: Pick<Lease, 'key' | 'token' | 'owner'>): string {
  return `${kind} ${key} ${token} ${owner}`
}

/** One outcome may be offered twice, as completed at two moments. */
function outcomeId(key: string, outcome: Buffer): string {
  return `${key} ${contentOfBytes(outcome)}`
}

function show(record: NodeRecord): string {
  return record.state === 'released'
    ? `released(${record.fence})`
    : `${record.state}(${record.fence}, ${record.owner.slice(0, 6)})`
}
