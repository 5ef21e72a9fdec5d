/**
 * The continuity of the nodes of one cluster: writes their heartbeats, and brings a node that comes back with its data back to voting.
 *
 * Owns applying the rules of `continuity.ts`, and the reason why a node waits.
 */

import { ANSWER_MAX_AGE_MS } from '../quorum/tally.ts'
import { majorityOf } from '../units.ts'
import { type ClockSample, type ForwardJump, isForgotten } from './clock-samples.ts'
import { Continuing, type ContinuityTurn, judgeAt, type Watcher } from './continuing.ts'
import { type Continuity, ContinuityMemory, lacksLastWrites, type Present } from './continuity.ts'
import { isMisnamed, type NodeFacts } from './fitness.ts'
import { type DuplicateServer, showsDuplicate } from './hearsay.ts'
import type { ClusterNodes, Member, NodeState } from './member.ts'
import { DOUBTS, NodeHistory, type Verdict } from './node-history.ts'
import type { CopyPorts } from './record-copying.ts'
import { type Cluster, isQuarantined, type RejoiningNode } from './rejoin-rules.ts'

const WHY = {
  no_loss: 'it has forgotten nothing, and votes in a moment',
  recover_from_peers: 'it is told what the others remember, and votes then',
}

export class NodeContinuity {
  readonly #nodes: ClusterNodes
  readonly #memory: ContinuityMemory
  readonly history: NodeHistory
  readonly #continuing = new Continuing()
  readonly #watcher: Watcher

  constructor(nodes: ClusterNodes) {
    this.#nodes = nodes
    const { names = [], clockStepMs, heartbeatEveryMs, answerMaxAgeMs = ANSWER_MAX_AGE_MS } = nodes.options
    const required = majorityOf(nodes.members.length)
    this.#memory = new ContinuityMemory(names, {
      required,
      toleratedStepMs: clockStepMs,
      answerMaxAgeMs,
    })
    this.history = new NodeHistory(clockStepMs, this.#memory.heartbeats, heartbeatEveryMs)
    this.#watcher = {
      view: () => this.#memory.view(this.#present(), nodes.cluster().id),
      pollAgain: () => Promise.all(nodes.members.map((member) => nodes.inspect(member))),
      sourceOf: (index) => {
        const member = nodes.members[index]
        if (member === undefined || !('facts' in member.state)) return undefined
        return nodes.rejoiningNode(member, member.state.facts)
      },
    }
  }

  /**
   * A node was polled.
   *
   * @param counts whether its votes count now, as far as its clock goes
   * @returns why it may have forgotten since it joined, although its process is the same
   */
  saw(member: Member, facts: NodeFacts, sample: ClockSample, counts: boolean): Verdict | undefined {
    const { members, options } = this.#nodes
    const { receivedMonoMs } = sample
    const [index, name] = [this.#indexOf(member), member.node.name]
    // What it notes is about itself and others by other names than here.
    if (options.names !== undefined && isMisnamed(facts, name, options.names))
      return this.history.sawIncarnation(name, facts, receivedMonoMs)
    this.#memory.saw(index, facts, sample, counts)
    const others = members.filter((other) => other !== member && other.state.kind === 'voting')
    const othersVote = others.length >= majorityOf(members.length)
    const verdict = this.history.saw(name, facts, { ...sample, othersVote })
    this.#pollReplaced(member)
    return verdict
  }

  /** The incarnation under which the node forgot by this jump what it had promised, if any. */
  forgottenBy(member: Member, jump: ForwardJump): string | undefined {
    const { incarnation, sinceMonoMs = 0 } = this.history.seen(member.node.name) ?? {}
    return incarnation !== undefined && isForgotten(incarnation, sinceMonoMs, jump) ? incarnation : undefined
  }

  /** Nodes that were polled before another one showed that they were out of use. */
  #pollReplaced(seen: Member): void {
    const { members, options } = this.#nodes
    for (const member of members) {
      if (member === seen || member.state.kind !== 'voting' || options.watchOnly === true) continue
      if (this.history.isStale(member.node.name, member.state.facts)) void this.#nodes.inspect(member)
    }
  }

  /** Another server that is used under the name of this one; undefined where none was seen. */
  duplicateOf(member: Member): DuplicateServer | undefined {
    return this.history.duplicateOf(member.node.name, this.#nodes.options.clock.monoMs())
  }

  /** Its quarantine began anew after the last promise of the other server. */
  outlived(member: Member): void {
    this.history.outlived(member.node.name)
  }

  /** A node that votes was polled lightly, and the process that it was is still there. */
  polledLightly(member: Member, heartbeatMs: number, sample: ClockSample, counts: boolean): void {
    this.#memory.polledLightly(this.#indexOf(member), heartbeatMs, sample, counts)
  }

  /** Writes the heartbeat of a node that votes, where it is due. @returns whether another process keeps it at present */
  async keepHeartbeat(member: Member, facts: NodeFacts): Promise<boolean> {
    const { watchOnly, clock, names, heartbeatEveryMs } = this.#nodes.options
    if (watchOnly || names === undefined || facts.incarnation === undefined) return false
    const index = this.#indexOf(member)
    // A heartbeat would say that it was in use.
    if (this.history.isStale(member.node.name, facts)) return false
    const heartbeat = this.#memory.heartbeatDue(index, facts, this.#present(), heartbeatEveryMs)
    const notes = this.#notesWithout(names[index] ?? '')
    if (heartbeat === undefined) {
      const noted = facts.counters?.others
      if ([...notes.keys()].some((other) => this.history.isBehind(other, noted?.get(other))))
        await member.link.writeNotes(facts.incarnation, notes).catch(() => {})
      return true
    }
    // A node that refuses it votes all the same: it is less certain what it remembers when it comes back.
    const wrote = await member.link.writeHeartbeat(facts.incarnation, heartbeat, notes).catch(() => undefined)
    if (wrote === undefined) return false
    this.#memory.wrote(index, wrote.ms)
    this.history.wrote(heartbeat.name, facts.incarnation, wrote.counter, clock.monoMs())
    return false
  }

  #notesWithout(name: string): ReadonlyMap<string, string> {
    const { names = [] } = this.#nodes.options
    return new Map(
      names.flatMap((other) => {
        const note = other === name ? undefined : this.history.noteOf(other)
        return note === undefined ? [] : [[other, note] as const]
      }),
    )
  }

  /** For viewers of the nodes: why it waits, where its data could have sufficed. */
  explained(member: Member): NodeState {
    const { state } = member
    if (
      state.kind === 'quarantined' &&
      (this.duplicateOf(member)?.lives === true || showsDuplicate(state.facts))
    )
      return { ...state, reason: DOUBTS.duplicate_server }
    const verdict = this.#verdictOn(member)
    if (state.kind !== 'quarantined' || verdict === undefined || verdict.kind === 'unknown') return state
    const why = verdict.kind === 'blocked' ? verdict.reason : WHY[verdict.kind]
    return { ...state, reason: `it was started again: ${why}` }
  }

  /** Its data suffice: it votes again by itself, however many others wait. */
  isComingBack(member: Member): boolean {
    const kind = this.#verdictOn(member)?.kind
    return kind === 'no_loss' || kind === 'recover_from_peers'
  }

  /** Nodes that came back with their data, and lack their last writes. */
  withoutLastWrites(): readonly string[] {
    return this.#watcher
      .view()
      .nodes.filter(lacksLastWrites)
      .map(({ name }) => name)
  }

  #verdictOn(member: Member): Continuity | undefined {
    if (member.state.kind !== 'quarantined' || this.#nodes.options.names === undefined) return undefined
    return judgeAt(this.#indexOf(member), this.#watcher.view())
  }

  /**
   * The next step for a waiting node; undefined where its data do not suffice, and it goes through its quarantine.
   *
   * @param observedForMs since this process first saw it wait
   */
  async turn(
    member: Member,
    facts: NodeFacts,
    observedForMs: number,
    cluster: Cluster,
    {
      target,
      ...ports
    }: Omit<CopyPorts, 'merged'> & {
      readonly target: RejoiningNode
      readonly occupy: () => Promise<boolean>
    },
  ): Promise<ContinuityTurn | undefined> {
    if (this.#nodes.options.names === undefined || !isQuarantined(facts)) return undefined
    const { quarantine } = facts
    const { clock } = this.#nodes.options
    const all = { ...ports, watcher: this.#watcher, monoMs: () => clock.monoMs() }
    return this.#continuing.turn(target, this.#indexOf(member), quarantine, observedForMs, cluster, all)
  }

  #present(): readonly Present[] {
    return this.#nodes.members.map(({ state }) =>
      state.kind === 'voting' || state.kind === 'quarantined'
        ? { voting: state.kind === 'voting', facts: state.facts }
        : undefined,
    )
  }

  #indexOf(member: Member): number {
    return this.#nodes.members.indexOf(member)
  }
}
