/** A sidecar's state of one node: its connection, its current state and what is told of it, and what was seen before. */

import type { Clock, Random } from '../clock.ts'
import type { Events } from '../events.ts'
import { sentenceOf, type Trouble, troubleOf } from '../node-faults.ts'
import { placeOf } from '../node-status.ts'
import { majorityOf } from '../units.ts'
import type { ClockSample } from './clock-samples.ts'
import type { Heartbeat } from './continuity.ts'
import { answerFault, type NodeFacts, sameMembers } from './fitness.ts'
import { ANY, Hearsay } from './hearsay.ts'
import type { Verdict } from './node-history.ts'
import type { NodeMemory } from './node-stats.ts'
import {
  CatchUpCounter,
  type Cluster,
  hasJoined,
  LONGEST_QUARANTINE_MS,
  type Membership,
  type RejoiningNode,
} from './rejoin-rules.ts'

export type NodeState =
  | ({ readonly kind: 'down' } & Trouble)
  /**
   * `hadJoined`: it shows that a cluster was founded on it, so that another one is not awaited there. `byItsData`: the server would
   * do, and what is written there says that it is not one of these nodes.
   */
  | ({ readonly kind: 'unfit'; readonly hadJoined: boolean; readonly byItsData: boolean } & Trouble)
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
    const reason = state.kind === 'voting' ? 'it has joined' : sentenceOf(state)
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
  /** Polls that found it connected and still not ready. */
  unreadyPolls: number
  /** It had a vote in this process's life: if empty, it forgot, and is not new. */
  wasVoting: boolean
  /** It may have forgotten what it promised under this incarnation, although the incarnation stands. */
  invalidated: (Verdict & { readonly incarnation: string }) | undefined
  readonly catchUp: CatchUpCounter
}

/** A node that was not dialled yet. */
export function memberOf(node: Voter, link: NodeLink, address: string): Member {
  return {
    node,
    link,
    address,
    state: { kind: 'down', ...troubleOf('not_dialled') },
    connection: 0,
    unreadyPolls: 0,
    wasVoting: false,
    invalidated: undefined,
    catchUp: new CatchUpCounter(),
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
  return unfit.map((node) => `${node.place}: ${sentenceOf(node)}`)
}

/** Called with a reading of a node's clock; returns whether its votes count. */
export type PollListener = (index: number, sample: ClockSample, sentWallMs: number) => boolean

// The nodes of one cluster for those parts that maintain them: the options, and the calls that they may make.

export type DriverOptions = {
  /** The names of these nodes on all sidecars, in the same order; absent: they are called by their addresses, and other sidecars' lists are not checked. */
  readonly names?: readonly string[]
  readonly connectTimeoutMs: number
  /** How long a node that forgot must not vote, for this sidecar's longest lease; the cluster's longest counts. */
  readonly quarantineMs: number
  /** How far a node's clock may be stepped before its quarantine begins anew. */
  readonly clockStepMs: number
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  /** Only poll: found no cluster and bring no node back. */
  readonly watchOnly?: boolean
  /** Of several groups: its own name. */
  readonly group?: string
  /** Whether a brand-new cluster may be founded now. Default: yes. */
  readonly mayFound?: () => boolean
  /** How long a brand-new cluster waits for objections before it is founded. Default: see `rejoin-rules.ts`. */
  readonly foundingWindowMs?: number
  /** Mean time between polls of a node, where light ones are not enough (`light-polls.ts`). Default: a second. */
  readonly inspectEveryMs?: number
  /** Between two heartbeats of a node. Default: see `continuity.ts`. */
  readonly heartbeatEveryMs?: number
  /** No older answer counts. Default: see `core/quorum/tally.ts`. */
  readonly answerMaxAgeMs?: number
}

export type ClusterNodes = {
  readonly options: DriverOptions
  readonly members: readonly Member[]
  /** No new work may begin. */
  readonly closed: boolean
  /** Polls a node now; where a poll is under way, once more after that. */
  inspect(member: Member): Promise<void>
  /** The cluster as its voting nodes know it, or else as any node does. */
  cluster(): Cluster
  /** A node as a rejoin sees it, on its current connection. */
  rejoiningNode(member: Member, facts: NodeFacts): MemberActs
}

// The port between `node-driver.ts` and a node of any kind: how it is dialled, polled and written to.

/** A server that answers, and that no setting of ours makes a node. */
export class UnsuitableServer extends Error {
  readonly trouble: Trouble

  constructor(trouble: Trouble) {
    super(sentenceOf(trouble))
    this.trouble = trouble
  }
}

/** An incarnation that no node has: its scripts answer that the incarnation is outdated. */
export const NO_INCARNATION = ''

/** Far above any healthy answer: a connection silent for so long is redialled, or a broken path would stay in use. */
export const INSPECT_DEADLINE_MS = 1_000

/** One connection to one node, made again by itself. Calls reject where they are not answered in time. */
export interface NodeLink {
  /** `open`: it was accepted, and is not ready. */
  readonly status: 'ready' | 'open' | 'down'
  /** Dials until it is closed. Resolves when it is ready, or could not be reached in time. */
  dial(on: Dialled): Promise<void>
  redial(): void
  close(): void
  /** Everything. One that stays silent is redialled. @throws UnsuitableServer */
  inspect(): Promise<NodeFacts>
  /** As `inspect`; undefined where the node refuses a part of it. */
  lightPoll(): Promise<LightPoll | undefined>
  /** @returns the heartbeat after that, and its counter; undefined where the node does not vote under this incarnation */
  writeHeartbeat(
    incarnation: string,
    heartbeat: Pick<Heartbeat, 'name' | 'durable' | 'others'>,
    counters: ReadonlyMap<string, string>,
  ): Promise<{ readonly ms: number; readonly counter: number } | undefined>
  /** What is known of other nodes' counters, and no heartbeat. */
  writeNotes(incarnation: string, counters: ReadonlyMap<string, string>): Promise<void>
  acts(seen: SeenRun): MemberActs
}

export type Dialled = {
  readonly ready: () => void
  /** `isUnsuitable`: no other dial will find a node there. */
  readonly down: (trouble: Trouble, isUnsuitable: boolean) => void
}

/** The run of a node's process for which acts are meant, and what they report. */
export type SeenRun = {
  readonly runId: string
  /** The incarnation that the node is known to have; undefined while it does not vote. */
  readonly incarnation: string | undefined
  readonly catchUp: CatchUpCounter
  /** Called with a reading of the node's clock; returns whether the node's votes count now. */
  readonly counts: (sample: ClockSample, sentWallMs: number) => boolean
  /** The connection is the one over which the node was inspected. */
  readonly sameConnection: () => boolean
}

/** Each on the run that was seen, or not at all. */
export interface MemberActs extends RejoiningNode {
  /**
   * It forgot by itself, and what it forgot is unknown. Not executed where it has rejoined since.
   *
   * @param itLies what it says of others is taken away, too
   */
  revoke(incarnation: string, itLies?: boolean): Promise<void>
  /** A sidecar that restarts or takes over a node's quarantine must wait as long as any sidecar's longest lease. */
  raise(cluster: Cluster): Promise<void>
  /** An operator decides to go on with what is left. False where the node votes, and so does not wait. */
  declare(by: string, clusterId: string): Promise<boolean>
  /** Takes the work of copying to this node, for a while; it only saves work that another sidecar is doing already. */
  occupy(who: string, lifetimeMs: number): Promise<boolean>
}

/** The node as requests use it. */
export interface Voter {
  readonly name: string
  /** With commands, so far. */
  readonly calls: number
  /** While `undefined` no command is sent: the process at the other end is unknown, or must not be used. */
  useIncarnation(incarnation: string | undefined): void
  /** Everything that the node takes until the next poll must fit into the room that new claims leave free. */
  sawMemory(memory: NodeMemory): void
}

/*
 * The cluster that this process works with for as long as it lives. If all nodes were emptied and founded anew while it was cut off, they
 * look as sound as before, and it would grant again what it acknowledged itself: only a new process accepts another cluster. The
 * longest quarantine only ever rises. What one node says of its cluster takes no vote of another: two have to say the same.
 */

type Shown = Pick<Membership, 'runId' | 'incarnation' | 'cluster'>

export class KnownCluster {
  readonly #events: Events
  readonly #ownQuarantineMs: number
  readonly #list: readonly string[] | undefined
  readonly #quarantines = new Hearsay()
  /** By node: the cluster in which it votes, as it says. */
  readonly #ids = new Map<string, string>()
  #id: string | undefined
  /** Two nodes have said so: no other counts from then on. */
  #isCertain = false
  /** The clusters found in its place; one more each time that the nodes are founded anew. */
  readonly #reported = new Set<string>()

  /**
   * @param quarantineMs as this process needs it
   * @param list the names of the nodes; absent: other sidecars' lists are not checked
   */
  constructor(events: Events, quarantineMs: number, list?: readonly string[]) {
    this.#events = events
    this.#list = list
    this.#ownQuarantineMs = quarantineMs
  }

  /** Undefined before any node has voted. */
  get id(): string | undefined {
    return this.#id
  }

  /** The longest quarantine that this process or two nodes asked for: until every lease of any sidecar is over. */
  get quarantineMs(): number {
    const { value = 0 } = this.#quarantines.believed('', ANY, LONGEST_QUARANTINE_MS) ?? {}
    return Math.max(this.#ownQuarantineMs, value)
  }

  /** A node was polled. @returns whether it is known only now which cluster this is */
  saw(node: string, { runId, incarnation, cluster }: Shown): boolean {
    if (cluster !== undefined) this.#quarantines.heard(node, '', ANY, cluster.quarantineMs, 0)
    const isOther = this.#list !== undefined && !sameMembers(cluster?.members ?? this.#list, this.#list)
    // A node of another list says nothing of this cluster.
    if (cluster === undefined || isOther || !hasJoined({ runId, incarnation })) this.#ids.delete(node)
    else this.#ids.set(node, cluster.id)
    const agreed = this.#agreed()
    if (agreed === undefined || this.#isCertain) return false
    this.#isCertain = true
    this.#id = agreed
    return true
  }

  /** A node votes. */
  learn({ cluster }: Shown): void {
    this.#id ??= cluster?.id
  }

  /** The cluster of which most nodes say that they vote in it, and two at least. */
  #agreed(): string | undefined {
    const counts = new Map<string, number>()
    for (const id of this.#ids.values()) counts.set(id, (counts.get(id) ?? 0) + 1)
    const [most] = [...counts].sort(([, one], [, other]) => other - one)
    return most === undefined || most[1] < 2 ? undefined : most[0]
  }

  /** As nodes know it that vote, or else as any node does. */
  clusterOf(members: readonly Pick<Member, 'state'>[]): Cluster {
    const found = members.flatMap(({ state }) =>
      'facts' in state && state.facts.cluster !== undefined
        ? [{ voting: state.kind === 'voting', id: state.facts.cluster.id }]
        : [],
    )
    const idOnNodes = (found.find(({ voting }) => voting) ?? found[0])?.id ?? ''
    const named = this.#list === undefined ? {} : { members: this.#list }
    return { id: this.#id ?? idOnNodes, quarantineMs: this.quarantineMs, ...named }
  }

  /**
   * Why this process must not use a node of another cluster. Published once for each, if the known one is gone.
   *
   * @param clusterLives other nodes vote in the known one
   */
  refusal(node: string, { cluster }: Shown, clusterLives: boolean): Trouble | undefined {
    const [known, found] = [this.#id, cluster?.id]
    if (known === undefined || found === undefined || known === found) return undefined
    if (clusterLives) return troubleOf('other_cluster', found, known)
    if (!this.#reported.has(found)) this.#events.publish({ kind: 'cluster_replaced', node, known, found })
    this.#reported.add(found)
    return troubleOf('founded_anew', found, known)
  }
}

/** What a light poll of a node that votes shows, in place of all that a full one reads. */
export type LightPoll = {
  readonly nodeMs: number
  readonly incarnation: string | undefined
  /** The longest of the cluster: votes are suspended for as long, so a longer one must be known in time. */
  readonly quarantineMs: number | undefined
  readonly heartbeat: { readonly runId: string; readonly nodeMs: number } | undefined
}
