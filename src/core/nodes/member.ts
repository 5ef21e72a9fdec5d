/** A sidecar's state of one node: its connection, its current state and what is told of it, and what was seen before. */

import type { Events } from '../events.ts'
import { type Trouble, told, troubleOf } from '../node-faults.ts'
import { placeOf } from '../node-status.ts'
import { majorityOf } from '../units.ts'
import { answerFault } from './answer-fault.ts'
import { CatchUpCounter } from './catch-up.ts'
import type { ClockSample } from './clock-samples.ts'
import type { NodeFacts } from './fitness.ts'
import type { Verdict } from './node-history.ts'
import type { NodeLink, Voter } from './node-link.ts'

export type NodeState =
  | ({ readonly kind: 'down' } & Trouble)
  /**
   * `wasEnrolled`: it shows that a cluster was founded on it, so that another one is not awaited there. `byItsData`: the server would
   * do, and what is written there says that it is not one of these nodes.
   */
  | ({ readonly kind: 'unfit'; readonly wasEnrolled: boolean; readonly byItsData: boolean } & Trouble)
  | { readonly kind: 'quarantined'; readonly facts: NodeFacts; readonly reason: string }
  /** `reason`: it refuses every write, so only reads count on it. */
  | ({ readonly kind: 'voting'; readonly facts: NodeFacts } & Partial<Trouble>)

export function votingState(facts: NodeFacts): NodeState {
  const { refusal } = facts
  return {
    kind: 'voting',
    facts,
    ...(refusal === undefined ? {} : answerFault(new Error(refusal), 'no_writes')),
  }
}

/** Its connection was lost, which says nothing of why, and the next dial does. Other reasons of a node that stays down come and go. */
function isExplained(before: NodeState, state: NodeState): boolean {
  return before.kind === 'down' && before.fault === 'lost' && state.kind === 'down' && state.fault !== 'lost'
}

/** Publishes what others have to know of it. */
export function tellChange(
  events: Events,
  { node: { name: node }, address }: Pick<Member, 'node' | 'address'>,
  before: NodeState,
  state: NodeState,
): void {
  if (before.kind !== state.kind || isExplained(before, state)) {
    const reason = state.kind === 'voting' ? 'it is enrolled' : told(state)
    events.publish({ kind: 'node_state', node, address, from: before.kind, to: state.kind, reason })
  }
  if (state.kind !== 'voting') return
  const { refusal } = state.facts
  const refused = before.kind === 'voting' && before.facts.refusal !== undefined
  if (refused !== (refusal !== undefined)) events.publish({ kind: 'node_writes', node, refusal })
}

export type Member = {
  readonly node: Voter
  readonly link: NodeLink
  /** Without credentials. */
  readonly address: string
  state: NodeState
  /** Counts connections: work begun on one must not be finished on another. */
  connection: number
  /** Looks that found it connected and still not ready. */
  unreadyLooks: number
  /** It had a vote in this process's life: if empty, it forgot, and is not new. */
  wasVoting: boolean
  /** It may have forgotten what it promised under this epoch, although the epoch stands. */
  invalidated: (Verdict & { readonly epoch: string }) | undefined
  readonly told: CatchUpCounter
}

/** A node that was not dialled yet. */
export function memberOf(node: Voter, link: NodeLink, address: string): Member {
  return {
    node,
    link,
    address,
    state: { kind: 'down', ...troubleOf('not_dialled') },
    connection: 0,
    unreadyLooks: 0,
    wasVoting: false,
    invalidated: undefined,
    told: new CatchUpCounter(),
  }
}

/** The unusable nodes, each with its reason. What is written on a single one, where a majority votes without it, is no reason. */
export function whyNotStart(members: readonly Member[]): readonly string[] {
  const unfit = members.flatMap(({ node: { name }, address, state }) =>
    state.kind === 'unfit' ? [{ ...state, place: placeOf({ name, address }) }] : [],
  )
  const voting = members.filter(({ state }) => state.kind === 'voting').length
  const [only] = unfit
  if (unfit.length === 1 && only?.byItsData === true && voting >= majorityOf(members.length)) return []
  return unfit.map((node) => `${node.place}: ${told(node)}`)
}

/** Called with a reading of a node's clock; returns whether its votes count. */
export type LookListener = (index: number, sample: ClockSample, sentWallMs: number) => boolean
