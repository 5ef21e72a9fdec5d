/**
 * Glances at the nodes of one cluster (`glance.ts`): remembers which node may be glanced at.
 *
 * A glance is one write and four reads on the node. A look at everything takes its place
 *
 * - while any node does not vote: whoever brings it back must know all of the others;
 * - after commands of this process: new claims must not fill a node's memory beyond its share, and fitness must be known
 *   where votes count;
 * - by whoever wrote the pulse at the look before: most likely it does so again;
 * - where no pulses are kept: by commands that change nothing, and without names of the nodes.
 *
 * Owns these conditions, and no timer.
 */

import type { ClusterNodes } from './cluster-nodes.ts'
import { LOOKS_PER_WHOLE_ONE, suffices } from './glance.ts'
import type { LookListener, Member } from './member.ts'
import type { NodeContinuity } from './node-continuity.ts'

type WholeLook = {
  readonly connection: number
  /** Calls with commands until then. */
  readonly calls: number
  /** Another process kept the pulse. */
  readonly kept: boolean
  glances: number
}

export class Glances {
  readonly #nodes: Pick<ClusterNodes, 'options' | 'members' | 'closed'>
  readonly #continuity: Pick<NodeContinuity, 'glanced'>
  readonly #whole = new Map<Member, WholeLook>()

  constructor(
    nodes: Pick<ClusterNodes, 'options' | 'members' | 'closed'>,
    continuity: Pick<NodeContinuity, 'glanced'>,
  ) {
    this.#nodes = nodes
    this.#continuity = continuity
  }

  /**
   * The node was looked at, and votes.
   *
   * @param began what its connection was then, and how many calls with commands had been sent to it
   * @param kept whether another process keeps the pulse
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
    const { clock, pulseEveryMs } = this.#nodes.options
    const [sentMonoMs, sentWallMs] = [clock.monoMs(), clock.wallMs()]
    // Why the node refuses it says the look that follows.
    const glance = await link.glance()
    if (this.#nodes.closed || member.connection !== connection || member.state !== state) return false
    if (glance?.pulse === undefined || !suffices(glance, state.facts, pulseEveryMs)) return false
    const sample = { nodeMs: glance.nodeMs, sentMonoMs, receivedMonoMs: clock.monoMs() }
    const counts = onLook(this.#nodes.members.indexOf(member), sample, sentWallMs)
    this.#continuity.glanced(member, glance.pulse.nodeMs, sample, counts)
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
