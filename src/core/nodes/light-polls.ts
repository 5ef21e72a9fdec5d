/**
 * Light polls of nodes that vote: one write and four reads. A full poll takes the place of a light one
 *
 * - while any node does not vote: whoever brings it back must know all of the others;
 * - after commands of this process: fitness and memory must be known where votes count;
 * - by whoever wrote the heartbeat at the poll before: most likely it does so again;
 * - where no heartbeats are kept: by commands that change nothing, and without names of the nodes.
 */

import type { Timer } from '../clock.ts'
import { HEARTBEAT_EVERY_MS } from './continuity.ts'
import type { ClusterNodes, LightPoll, Member, PollListener } from './member.ts'
import type { NodeContinuity } from './node-continuity.ts'
import type { Membership } from './rejoin-rules.ts'

type Nodes = Pick<ClusterNodes, 'options' | 'members' | 'closed'>

type FullPoll = {
  readonly connection: number
  /** Calls with commands until then. */
  readonly calls: number
  /** Another process kept the heartbeat. */
  readonly kept: boolean
  lightPolls: number
}

/** A change of role or policy counts for no longer than two polls. */
const INSPECT_EVERY_MS = 1_000

/** When the nodes are polled, and how: one timer for all of them, so that an idle process wakes up once. */
export class LightPolls {
  readonly #nodes: Nodes
  readonly #continuity: Pick<NodeContinuity, 'polledLightly'>
  readonly #poll: (member: Member) => Promise<void>
  readonly #whole = new Map<Member, FullPoll>()
  /** Those whose poll before is over. */
  readonly #due = new Set<Member>()
  #timer: Timer | undefined

  /** @param poll never rejects */
  constructor(
    nodes: Nodes,
    continuity: Pick<NodeContinuity, 'polledLightly'>,
    poll: (member: Member) => Promise<void>,
  ) {
    this.#nodes = nodes
    this.#continuity = continuity
    this.#poll = poll
  }

  /** The node is polled from now on. */
  add(member: Member): void {
    this.#due.add(member)
  }

  /** @param apart the last polls say that the next ones may be further apart */
  start(apart = false): void {
    if (this.#nodes.closed) return
    const { clock, random, inspectEveryMs = INSPECT_EVERY_MS } = this.#nodes.options
    this.#timer?.cancel()
    const delayMs = nextPollMs(inspectEveryMs, apart, random.fraction())
    this.#timer = clock.timer(delayMs, () => void this.#lookOnDue())
  }

  stop(): void {
    this.#timer?.cancel()
  }

  async #lookOnDue(): Promise<void> {
    const polls = [...this.#due].map((member) => this.#poll(member).finally(() => this.#due.add(member)))
    this.#due.clear()
    // At once: a node that is slow to answer holds up no other's poll.
    this.start()
    const next = this.#timer
    await Promise.all(polls)
    if (this.#timer === next && this.areEnough) this.start(true)
  }

  /**
   * The node was polled, and votes.
   *
   * @param began what its connection was then, and how many calls with commands had been sent to it
   * @param kept whether another process keeps the heartbeat
   */
  polled(member: Member, began: Pick<FullPoll, 'connection' | 'calls'>, kept: boolean): void {
    this.#whole.set(member, { ...began, kept, lightPolls: 0 })
  }

  /** Every node votes, the last poll of each was a light one, and no command was sent since. */
  get areEnough(): boolean {
    const { members } = this.#nodes
    return this.#allVote() && members.every((member) => (this.#unchanged(member)?.lightPolls ?? 0) > 0)
  }

  /**
   * Polls the node lightly where it may.
   *
   * @returns whether that was enough: it is what it was at the last poll
   * @throws Error where the node stays silent; it is redialled then
   */
  async suffices(member: Member, onPoll: PollListener): Promise<boolean> {
    const { state, connection, link } = member
    if (state.kind !== 'voting' || link.status !== 'ready' || !this.#mayPollLightly(member)) return false
    const { clock, heartbeatEveryMs } = this.#nodes.options
    const [sentMonoMs, sentWallMs] = [clock.monoMs(), clock.wallMs()]
    // Why the node refuses it says the poll that follows.
    const lightPoll = await link.lightPoll()
    if (this.#nodes.closed || member.connection !== connection || member.state !== state) return false
    if (lightPoll?.heartbeat === undefined || !suffices(lightPoll, state.facts, heartbeatEveryMs))
      return false
    const sample = { nodeMs: lightPoll.nodeMs, sentMonoMs, receivedMonoMs: clock.monoMs() }
    const counts = onPoll(this.#nodes.members.indexOf(member), sample, sentWallMs)
    this.#continuity.polledLightly(member, lightPoll.heartbeat.nodeMs, sample, counts)
    return true
  }

  #mayPollLightly(member: Member): boolean {
    const whole = this.#unchanged(member)
    if (whole === undefined || !whole.kept || whole.lightPolls >= POLLS_PER_FULL_ONE - 1) return false
    if (!this.#allVote()) return false
    whole.lightPolls += 1
    return true
  }

  /** The last full poll, where it has the same connection and was sent no command since. */
  #unchanged(member: Member): FullPoll | undefined {
    const whole = this.#whole.get(member)
    const same = whole?.connection === member.connection && whole.calls === member.node.calls
    return same ? whole : undefined
  }

  #allVote(): boolean {
    return this.#nodes.members.every(({ state, invalidated }) => state.kind === 'voting' && !invalidated)
  }
}

/*
 * Whoever polls in the half second after a heartbeat was written need not poll in full: the process that wrote it has just done so, and
 * writes none where it finds a node unfit. So of all processes at most two a second poll in full; where they find a reason not
 * to write, the others see the heartbeat grow old and poll in full themselves.
 */

/** Of so many polls in a row at least one is full, whatever the heartbeat says. */
export const POLLS_PER_FULL_ONE = 10

/** Where light polls are enough, they are so much further apart: each wakes the node up. The watch over clocks allows gaps of 3 s (`node-clocks.ts`). */
const LIGHT_POLLS_APART = 1.75

/**
 * Until the next poll, jittered, so that sidecars that started together do not poll together.
 *
 * @param everyMs mean time between polls where light ones are not enough
 * @param fraction uniform in [0, 1)
 */
export function nextPollMs(everyMs: number, lightPollsAreEnough: boolean, fraction: number): number {
  return everyMs * (lightPollsAreEnough ? LIGHT_POLLS_APART : 1) * (0.75 + fraction / 2)
}

/** @param known what the last full poll found, on the same connection */
export function suffices(
  { nodeMs, incarnation, quarantineMs, heartbeat }: LightPoll,
  known: Pick<Membership, 'runId' | 'incarnation' | 'cluster'>,
  heartbeatEveryMs = HEARTBEAT_EVERY_MS,
): boolean {
  if (
    incarnation === undefined ||
    incarnation !== known.incarnation ||
    quarantineMs !== known.cluster?.quarantineMs
  )
    return false
  return heartbeat?.runId === known.runId && Math.abs(nodeMs - heartbeat.nodeMs) < heartbeatEveryMs
}
