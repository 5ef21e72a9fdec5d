/**
 * Glances at the nodes of one cluster (`core/nodes/glance.ts`): reads them, and remembers which node may be glanced at.
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

import type { Redis } from 'ioredis'
import { type Glance, LOOKS_PER_WHOLE_ONE, suffices } from '../core/nodes/glance.ts'
import type { ClusterNodes } from './cluster-nodes.ts'
import type { NodeContinuity } from './continuity.ts'
import { CLUSTER_KEY, EPOCH_KEY, PULSE_KEY } from './keys.ts'
import type { LookListener, Member } from './member.ts'
import { answerOrRedial } from './redial.ts'

/** @throws Error where the node does not answer, or refuses one of the commands */
export async function glanceAt(client: Redis): Promise<Glance> {
  const replies = await client
    .pipeline()
    .time()
    .get(EPOCH_KEY)
    .hget(CLUSTER_KEY, 'quarantine_ms')
    .hgetall(PULSE_KEY)
    .exec()
  const [time, epoch, quarantineMs, pulse] = (replies ?? []).map(([error, reply]) => {
    if (error !== null) throw error
    return reply
  })
  if (!Array.isArray(time)) throw new Error('the node does not tell its time')
  const [seconds, micros] = time.map(Number) as [number, number]
  const { run: runId, ms: pulseMs } = (pulse ?? {}) as { readonly run?: string; readonly ms?: string }
  return {
    nodeMs: seconds * 1_000 + Math.floor(micros / 1_000),
    epoch: typeof epoch === 'string' ? epoch : undefined,
    quarantineMs: typeof quarantineMs === 'string' ? Number(quarantineMs) : undefined,
    pulse: runId === undefined ? undefined : { runId, nodeMs: Number(pulseMs) },
  }
}

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
    const { state, connection, client } = member
    if (state.kind !== 'voting' || client.status !== 'ready' || !this.#mayGlance(member)) return false
    const { clock } = this.#nodes.options
    const [sentMonoMs, sentWallMs] = [clock.monoMs(), clock.wallMs()]
    // Why the node refuses it says the look that follows.
    const glancing = glanceAt(client).catch(() => undefined)
    const glance = await answerOrRedial(member, clock, glancing)
    if (this.#nodes.closed || member.connection !== connection || member.state !== state) return false
    if (glance?.pulse === undefined || !suffices(glance, state.facts)) return false
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
