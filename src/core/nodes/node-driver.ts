/**
 * Drives the N nodes of one cluster: connects them, keeps watch over which may vote, and closes them.
 *
 *   down → quarantined → voting ; any → unfit (replica, evicting, a server twice) ; any → down (connection lost)
 *
 * Each connection is inspected before a command is sent over it, because a restarted process cannot keep one: that is how a node that
 * forgot is noticed. Every node is polled from time to time (`light-polls.ts`), because its role and its policy can change meanwhile.
 */

import type { Trouble } from '../node-faults.ts'
import type { ForwardJump } from './clock-samples.ts'
import { answerFault, hasEvicted, memberList, type NodeFacts, unfitnessOf, whyForeign } from './fitness.ts'
import { LightPolls } from './light-polls.ts'
import {
  type ClusterNodes,
  type DriverOptions,
  KnownCluster,
  type Member,
  type MemberActs,
  NO_INCARNATION,
  type NodeState,
  type PollListener,
  tellChange,
  UnsuitableServer,
  votingState,
  whyNotStart,
} from './member.ts'
import { NodeContinuity } from './node-continuity.ts'
import { Rejoin } from './rejoin.ts'
import { type Cluster, hasJoined, looksNew, waitOf } from './rejoin-rules.ts'

/** How often a connection may be unready before it is redialled: two seconds, far above loading's own "not yet". */
const UNREADY_POLLS_MAX = 3

/** For callers that watch no clocks. */
const ALL_BELIEVED: PollListener = () => true

export class NodeDriver implements ClusterNodes, AsyncDisposable {
  readonly members: readonly Member[]
  readonly options: DriverOptions
  readonly rejoin: Rejoin
  readonly continuity: NodeContinuity
  readonly #inspections = new Map<Member, Promise<void>>()
  readonly #lightPolls: LightPolls
  /** The names as the nodes keep them: compared at each poll. */
  readonly #list: readonly string[] | undefined
  #closed = false
  readonly #known: KnownCluster
  #onPoll: PollListener = ALL_BELIEVED

  constructor(members: readonly Member[], options: DriverOptions) {
    this.options = options
    this.members = members
    this.#list = options.names === undefined ? undefined : memberList(options.names)
    this.#known = new KnownCluster(options.events, options.quarantineMs, this.#list)
    this.continuity = new NodeContinuity(this)
    this.#lightPolls = new LightPolls(this, this.continuity, (member) => this.#pollOn(member))
    this.rejoin = new Rejoin(this, this.continuity)
  }

  /** What is known of each node now, in the order of the addresses. */
  states(): readonly { readonly name: string; readonly address: string; readonly state: NodeState }[] {
    return this.members.map((member) => ({
      name: member.node.name,
      address: member.address,
      state: this.continuity.explained(member),
    }))
  }

  /**
   * Dials all nodes. Resolves when each has been inspected or could not be reached; a node that is down is dialled on.
   *
   * @param onPoll called with each poll's reading of a node's clock, so that clocks are watched also without requests.
   *   Default: all clocks are trusted
   * @returns the unusable nodes, each with its reason: do not start if there is one
   */
  async connect(onPoll: PollListener = ALL_BELIEVED): Promise<readonly string[]> {
    this.#onPoll = onPoll
    this.#lightPolls.start()
    await Promise.all(
      this.members.map(async (member) => {
        await member.link.dial({
          ready: () => void this.inspect(member),
          down: (trouble, isUnsuitable) => {
            // What is unfit stays so while it is down.
            if (isUnsuitable) this.#unfit(member, trouble)
            this.#down(member, trouble)
          },
        })
        await this.inspect(member)
        this.#lightPolls.add(member)
      }),
    )
    await this.rejoin.foundIfNew()
    return whyNotStart(this.members)
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Polls a node now; where a poll is under way, once more after that. */
  inspect(member: Member): Promise<void> {
    return this.#inTurn(member, () => this.#inspect(member))
  }

  #inTurn(member: Member, poll: () => Promise<void>): Promise<void> {
    const before = this.#inspections.get(member) ?? Promise.resolve()
    const inspection = before.then(poll)
    this.#inspections.set(member, inspection)
    return inspection.finally(() => {
      if (this.#inspections.get(member) === inspection) this.#inspections.delete(member)
    })
  }

  /** The cluster as its voting nodes know it, or else as any node does; the longest quarantine ever seen counts. */
  cluster(): Cluster {
    return this.#known.clusterOf(this.members)
  }

  /** A node as a rejoin sees it, on its current connection. */
  rejoiningNode(member: Member, facts: NodeFacts): MemberActs {
    const { connection, link, catchUp } = member
    return link.acts({
      runId: facts.runId,
      incarnation: hasJoined(facts) ? facts.incarnation : undefined,
      catchUp,
      counts: (sample, wallMs) => this.#onPoll(this.members.indexOf(member), sample, wallMs),
      sameConnection: () => member.connection === connection && link.status === 'ready',
    })
  }

  /** A forward clock jump may have silently expired its promises: invalidates its incarnation, and it rejoins. */
  invalidateIncarnation(index: number, reason: string, jump: ForwardJump): void {
    const member = this.members[index]
    const incarnation = member && this.continuity.forgottenBy(member, jump)
    if (member === undefined || incarnation === undefined) return
    member.invalidated = { incarnation, doubt: 'clock_jump', reason }
    if (member.state.kind === 'voting') member.node.useIncarnation(NO_INCARNATION)
    void this.inspect(member)
  }

  /** The node answers that its incarnation is outdated, or that it is a replica. */
  forgot(index: number): void {
    const member = this.members[index]
    if (member !== undefined && !this.#inspections.has(member)) void this.inspect(member)
  }

  #pollOn(member: Member): Promise<void> {
    return this.#inTurn(member, async () => {
      const { connection } = member
      try {
        if (await this.#lightPolls.suffices(member, this.#onPoll)) return
      } catch (cause) {
        if (!this.#closed && member.connection === connection) this.#down(member, answerFault(cause))
        return
      }
      await this.#inspect(member)
    })
  }

  #down(member: Member, trouble: Trouble): void {
    const { state } = member
    member.connection += 1
    member.node.useIncarnation(undefined)
    // What was wrong ends the connection as well, which says less.
    const isKnown = state.kind === 'unfit' || (state.kind === 'down' && trouble.fault === 'lost')
    if (!isKnown) this.#become(member, { kind: 'down', ...trouble })
  }

  async #inspect(member: Member): Promise<void> {
    const { link, connection, node } = member
    const { calls } = node
    if (this.#closed) return
    member.unreadyPolls = link.status === 'open' ? member.unreadyPolls + 1 : 0
    // It accepted the connection and stays silent, or its answers are lost on the way: only redialling can tell.
    if (member.unreadyPolls >= UNREADY_POLLS_MAX) {
      member.unreadyPolls = 0
      link.redial()
    }
    if (link.status !== 'ready') return
    const isCurrent = () => !this.#closed && member.connection === connection
    try {
      let facts = await this.#poll(member)
      if (!isCurrent()) return
      if (this.#refused(member, facts)) {
        if (facts.incarnation !== undefined && hasEvicted(facts) && !this.options.watchOnly)
          await this.rejoiningNode(member, facts).revoke(facts.incarnation)
        return
      }
      if (facts.incarnation !== undefined && facts.incarnation === member.invalidated?.incarnation) {
        const lies = member.invalidated.doubt === 'impossible_claim'
        await this.rejoiningNode(member, facts).revoke(facts.incarnation, lies)
        facts = await this.#poll(member)
        if (!isCurrent()) return
      }
      if (!hasJoined(facts)) return await this.#quarantine(member, facts, isCurrent)
      const { quarantineMs, names, watchOnly } = this.options
      const unnamed = names !== undefined && facts.cluster?.members === undefined
      const incomplete = unnamed || facts.format === undefined
      if (watchOnly !== true && ((facts.cluster?.quarantineMs ?? 0) < quarantineMs || incomplete))
        await this.rejoiningNode(member, facts).raise(this.cluster())
      // Judged again: its twin may have been polled in the meantime.
      if (!isCurrent() || this.#refused(member, facts)) return
      // Another node's answer may meanwhile have settled that this one jumped.
      if (facts.incarnation === member.invalidated?.incarnation) return void this.inspect(member)
      member.wasVoting = true
      this.#known.learn(facts)
      member.invalidated = undefined
      member.node.useIncarnation(facts.incarnation)
      this.#become(member, votingState(facts))
      const kept = await this.continuity.keepHeartbeat(member, facts)
      this.#lightPolls.polled(member, { connection, calls }, kept)
    } catch (cause) {
      if (!isCurrent()) return
      if (cause instanceof UnsuitableServer) this.#unfit(member, cause.trouble)
      else this.#down(member, answerFault(cause))
    }
  }

  async #poll(member: Member): Promise<NodeFacts> {
    const { clock } = this.options
    const [sentMonoMs, sentWallMs] = [clock.monoMs(), clock.wallMs()]
    const sawCatchUp = member.catchUp.asked()
    const facts = await member.link.inspect()
    const receivedMonoMs = clock.monoMs()
    member.node.sawMemory(facts.memory)
    const { incarnation, nodeMs } = facts
    sawCatchUp(facts.quarantine)
    const sample = { nodeMs, sentMonoMs, receivedMonoMs }
    const counts = this.#onPoll(this.members.indexOf(member), sample, sentWallMs)
    // Its role and its policy may have been others between two polls.
    const verdict = this.continuity.saw(member, facts, sample, counts)
    if (verdict !== undefined && incarnation !== undefined && !this.options.watchOnly)
      member.invalidated = { incarnation, ...verdict }
    if (this.#known.saw(member.node.name, facts)) this.#judgeAgain(member)
    return facts
  }

  /** It is known only now which cluster this is, and some may be of another one. */
  #judgeAgain(seen: Member): void {
    for (const member of this.members) {
      if (member === seen) continue
      if (member.state.kind === 'voting') this.#refused(member, member.state.facts)
      else void this.inspect(member)
    }
  }

  /** In the same turn as the resulting state, so that of two that exclude each other one is refused. */
  #refused(member: Member, facts: NodeFacts): boolean {
    const others = this.members.flatMap((other) =>
      other !== member && 'facts' in other.state
        ? [{ name: other.node.name, voting: other.state.kind === 'voting', facts: other.state.facts }]
        : [],
    )
    const clusterLives = others.some(({ voting }) => voting)
    const name = this.options.names?.[this.members.indexOf(member)]
    const own = unfitnessOf(facts)
    const trouble =
      own ??
      whyForeign(facts, others, this.#list, name, this.#known.id) ??
      this.#known.refusal(member.node.name, facts, clusterLives)
    if (trouble === undefined) return false
    this.#unfit(member, trouble, !looksNew(facts), own === undefined)
    return true
  }

  #unfit(member: Member, trouble: Trouble, hadJoined = false, byItsData = false): void {
    member.node.useIncarnation(undefined)
    this.#become(member, { kind: 'unfit', ...trouble, hadJoined, byItsData })
  }

  /** Its commands are sent from now on, and its answers do not count. */
  async #quarantine(member: Member, facts: NodeFacts, isCurrent: () => boolean): Promise<void> {
    // An incarnation of an earlier run says as well that its cluster lives.
    const hasIncarnation = this.members.some(
      ({ state }) => 'facts' in state && state.facts.incarnation !== undefined,
    )
    const clusterIsKnown = this.#known.id !== undefined || hasIncarnation
    const { forgot, quarantine, emptied, begun } = waitOf(member, facts, clusterIsKnown)
    member.node.useIncarnation(NO_INCARNATION)
    let known = facts
    if (!begun && !this.options.watchOnly) {
      const origin = forgot ? 'forgot' : 'new'
      const node = this.rejoiningNode(member, facts)
      const nonce = this.options.random.hex(16)
      // What was copied to it may be gone.
      if (quarantine !== undefined && emptied) await node.restart(quarantine.nonce, nonce, { forgot: true })
      else await node.begin(nonce, origin)
      // A later sidecar without that knowledge learns which cluster it was, and that cluster goes on.
      if (this.#known.id !== undefined && facts.cluster === undefined) await node.raise(this.cluster())
      known = await this.#poll(member)
    }
    if (!isCurrent() || this.#refused(member, known)) return
    const reason = forgot
      ? (member.invalidated?.reason ?? 'it forgot what it had promised')
      : 'it has never joined'
    this.#become(member, { kind: 'quarantined', facts: known, reason })
    this.rejoin.pursue(member)
  }

  #become(member: Member, state: NodeState): void {
    const before = member.state
    member.state = state
    if (this.#closed) return
    tellChange(this.options.events, member, before, this.continuity.explained(member))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    this.#lightPolls.stop()
    for (const { link } of this.members) link.close()
  }
}
