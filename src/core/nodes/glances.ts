/**
 * Glances at nodes that vote: one write and four reads. A look at everything takes the place of a glance
 *
 * - while any node does not vote: whoever brings it back must know all of the others;
 * - after commands of this process: fitness and memory must be known where votes count;
 * - by whoever wrote the heartbeat at the look before: most likely it does so again;
 * - where no heartbeats are kept: by commands that change nothing, and without names of the nodes.
 */

import type { Timer } from '../clock.ts'
import { HEARTBEAT_EVERY_MS } from './continuity.ts'
import type { ClusterNodes, Glance, LookListener, Member } from './member.ts'
import type { NodeContinuity } from './node-continuity.ts'
import type { Membership } from './rejoin-rules.ts'

type Nodes = Pick<ClusterNodes, 'options' | 'members' | 'closed'>

type WholeLook = {
  readonly connection: number
  /** Calls with commands until then. */
  readonly calls: number
  /** Another process kept the heartbeat. */
  readonly kept: boolean
  glances: number
}

/** A change of role or policy counts for no longer than two looks. */
const INSPECT_EVERY_MS = 1_000

/** When the nodes are looked at, and how: one timer for all of them, so that an idle process wakes up once. */
export class Glances {
  readonly #nodes: Nodes
  readonly #continuity: Pick<NodeContinuity, 'glanced'>
  readonly #look: (member: Member) => Promise<void>
  readonly #whole = new Map<Member, WholeLook>()
  /** Those whose look before is over. */
  readonly #due = new Set<Member>()
  #timer: Timer | undefined

  /** @param look never rejects */
  constructor(
    nodes: Nodes,
    continuity: Pick<NodeContinuity, 'glanced'>,
    look: (member: Member) => Promise<void>,
  ) {
    this.#nodes = nodes
    this.#continuity = continuity
    this.#look = look
  }

  /** The node is looked at from now on. */
  add(member: Member): void {
    this.#due.add(member)
  }

  /** @param apart the last looks say that the next ones may be further apart */
  start(apart = false): void {
    if (this.#nodes.closed) return
    const { clock, random, inspectEveryMs = INSPECT_EVERY_MS } = this.#nodes.options
    this.#timer?.cancel()
    const delayMs = nextLookMs(inspectEveryMs, apart, random.fraction())
    this.#timer = clock.timer(delayMs, () => void this.#lookOnDue())
  }

  stop(): void {
    this.#timer?.cancel()
  }

  async #lookOnDue(): Promise<void> {
    const looks = [...this.#due].map((member) => this.#look(member).finally(() => this.#due.add(member)))
    this.#due.clear()
    // At once: a node that is slow to answer holds up no other's look.
    this.start()
    const next = this.#timer
    await Promise.all(looks)
    if (this.#timer === next && this.areEnough) this.start(true)
  }

  /**
   * The node was looked at, and votes.
   *
   * @param began what its connection was then, and how many calls with commands had been sent to it
   * @param kept whether another process keeps the heartbeat
   */
  looked(member: Member, began: Pick<WholeLook, 'connection' | 'calls'>, kept: boolean): void {
    this.#whole.set(member, { ...began, kept, glances: 0 })
  }

  /** Every node votes, the last look at each was a glance, and no command was sent since. */
  get areEnough(): boolean {
    const { members } = this.#nodes
    return this.#allVote() && members.every((member) => (this.#unchanged(member)?.glances ?? 0) > 0)
  }

  /**
   * Glances at the node where it may.
   *
   * @returns whether that was enough: it is what it was at the last look
   * @throws Error where the node stays silent; it is redialled then
   */
  async suffices(member: Member, onLook: LookListener): Promise<boolean> {
    const { state, connection, link } = member
    if (state.kind !== 'voting' || link.status !== 'ready' || !this.#mayGlance(member)) return false
    const { clock, heartbeatEveryMs } = this.#nodes.options
    const [sentMonoMs, sentWallMs] = [clock.monoMs(), clock.wallMs()]
    // Why the node refuses it says the look that follows.
    const glance = await link.glance()
    if (this.#nodes.closed || member.connection !== connection || member.state !== state) return false
    if (glance?.heartbeat === undefined || !suffices(glance, state.facts, heartbeatEveryMs)) return false
    const sample = { nodeMs: glance.nodeMs, sentMonoMs, receivedMonoMs: clock.monoMs() }
    const counts = onLook(this.#nodes.members.indexOf(member), sample, sentWallMs)
    this.#continuity.glanced(member, glance.heartbeat.nodeMs, sample, counts)
    return true
  }

  #mayGlance(member: Member): boolean {
    const whole = this.#unchanged(member)
    if (whole === undefined || !whole.kept || whole.glances >= LOOKS_PER_WHOLE_ONE - 1) return false
    if (!this.#allVote()) return false
    whole.glances += 1
    return true
  }

  /** The last look at everything, where it has the same connection and was sent no command since. */
  #unchanged(member: Member): WholeLook | undefined {
    const whole = this.#whole.get(member)
    const same = whole?.connection === member.connection && whole.calls === member.node.calls
    return same ? whole : undefined
  }

  #allVote(): boolean {
    return this.#nodes.members.every(({ state, invalidated }) => state.kind === 'voting' && !invalidated)
  }
}

/*
 * Whoever looks in the half second after a heartbeat was written need not look at everything: the process that wrote it has just done so, and
 * writes none where it finds a node unfit. So of all processes at most two a second look at everything; where they find a reason not
 * to write, the others see the heartbeat grow old and look themselves.
 */

/** Of so many looks in a row at least one is at everything, whatever the heartbeat says. */
export const LOOKS_PER_WHOLE_ONE = 10

/** Where glances are enough, looks are so much further apart: each wakes the node up. The watch over clocks allows gaps of 3 s (`node-clocks.ts`). */
const GLANCES_APART = 1.75

/**
 * Until the next look, jittered, so that sidecars that started together do not look together.
 *
 * @param everyMs mean time between looks where glances are not enough
 * @param fraction uniform in [0, 1)
 */
export function nextLookMs(everyMs: number, glancesAreEnough: boolean, fraction: number): number {
  return everyMs * (glancesAreEnough ? GLANCES_APART : 1) * (0.75 + fraction / 2)
}

/** @param known what the last look at everything found, on the same connection */
export function suffices(
  { nodeMs, epoch, quarantineMs, heartbeat }: Glance,
  known: Pick<Membership, 'runId' | 'epoch' | 'cluster'>,
  heartbeatEveryMs = HEARTBEAT_EVERY_MS,
): boolean {
  if (epoch === undefined || epoch !== known.epoch || quarantineMs !== known.cluster?.quarantineMs)
    return false
  return heartbeat?.runId === known.runId && Math.abs(nodeMs - heartbeat.nodeMs) < heartbeatEveryMs
}
