/**
 * What a process knows of the continuity of the nodes: it writes their pulses and remembers them. The one on enrolment duty acts upon it;
 * another keeps the pulses beside it.
 *
 * Owns the looks, several a second, and how the rules of production (`core/nodes/continuity.ts`, `continuing.ts`) meet simulated nodes.
 */

import { SILENT } from '../../src/core/events.ts'
import { Continuing, type ContinuityTurn } from '../../src/core/nodes/continuing.ts'
import {
  type ContinuityFacts,
  ContinuityMemory,
  type Present,
} from '../../src/core/nodes/continuity-memory.ts'
import type { EnrolmentNode } from '../../src/core/nodes/enrolment-node.ts'
import { isEnrolled, isQuarantined } from '../../src/core/nodes/enrolment-rules.ts'
import { LOOKS_PER_WHOLE_ONE, suffices } from '../../src/core/nodes/glance.ts'
import { majorityOf } from '../../src/core/units.ts'
import { SIMULATED_ANSWER_MAX_AGE_MS, SIMULATED_PULSE_MS } from './drains.ts'
import { CLOCK_STEP_MS, CLUSTER, call, type EnrollerPorts, enrolmentNodeOf, type Shown } from './enroller.ts'
import type { SimulatedNode } from './node.ts'

type Facts = ContinuityFacts & Shown

export type KeeperPorts = Omit<EnrollerPorts, 'keeper'>

export class Keeper {
  readonly #ports: KeeperPorts
  readonly #memory: ContinuityMemory
  readonly #continuing = new Continuing()
  readonly #present: (Facts | undefined)[] = []
  /** Of nodes whose pulse another process keeps: glances since the last look at everything. */
  readonly #glances = new Map<number, number>()

  constructor(ports: KeeperPorts) {
    this.#ports = ports
    this.#memory = new ContinuityMemory(
      ports.nodes.map(({ name }) => name),
      {
        required: majorityOf(ports.nodes.length),
        toleratedStepMs: CLOCK_STEP_MS,
        answerMaxAgeMs: SIMULATED_ANSWER_MAX_AGE_MS,
      },
    )
    for (const node of ports.nodes) this.#lookLater(node)
  }

  /** The present facts of every node. */
  async look(): Promise<readonly (Facts | undefined)[]> {
    await Promise.all(this.#ports.nodes.map((node) => this.#look(node)))
    return [...this.#present]
  }

  /** As production has it, before the steps of the quarantine. */
  async turn(
    target: EnrolmentNode,
    index: number,
    observedForMs: number,
  ): Promise<ContinuityTurn | undefined> {
    const { nodes } = this.#ports
    const member = this.#present[index]
    if (member === undefined || !isQuarantined(member)) return undefined
    return this.#continuing.turn(target, index, member.quarantine, observedForMs, CLUSTER, {
      events: SILENT,
      monoMs: () => this.#ports.process.clock.monoMs(),
      occupy: () => Promise.resolve(true),
      watcher: {
        view: () => this.#memory.view(this.#states(), CLUSTER.id),
        lookAgain: () => this.look(),
        sourceOf: (at) => {
          const [node, facts] = [nodes[at], this.#present[at]]
          return node && facts && enrolmentNodeOf(node, facts, this.#ports)
        },
      },
    })
  }

  /** As production has it (`core/nodes/glances.ts`): a restart breaks the connection, and the glance finds no answer. */
  async #glance(node: SimulatedNode): Promise<boolean> {
    const { process, history } = this.#ports
    const known = this.#present[node.index]
    const glances = this.#glances.get(node.index)
    if (known === undefined || glances === undefined || glances >= LOOKS_PER_WHOLE_ONE - 1) return false
    if (!this.#present.every((facts) => facts !== undefined && isEnrolled(facts))) return false
    this.#glances.set(node.index, glances + 1)
    const sentMonoMs = process.clock.monoMs()
    const glance = await call(node, Number(known.runId), this.#ports, () => ({
      nodeMs: Math.floor(node.nodeMs),
      epoch: node.epoch,
      quarantineMs: CLUSTER.quarantineMs,
      pulse: node.pulse,
    })).catch(() => undefined)
    if (this.#present[node.index] !== known) return false
    if (glance?.pulse === undefined || !suffices(glance, known, SIMULATED_PULSE_MS)) return false
    const sample = { nodeMs: glance.nodeMs, sentMonoMs, receivedMonoMs: process.clock.monoMs() }
    this.#memory.glanced(node.index, glance.pulse.nodeMs, sample, true)
    history.saw('node_glanced_at')
    return true
  }

  async #look(node: SimulatedNode): Promise<void> {
    const { process } = this.#ports
    this.#glances.delete(node.index)
    const sentMonoMs = process.clock.monoMs()
    const facts = await call(node, node.runId, this.#ports, () => factsOf(node)).catch(() => undefined)
    this.#present[node.index] = facts
    if (facts === undefined) return
    const sample = { nodeMs: facts.nodeMs, sentMonoMs, receivedMonoMs: process.clock.monoMs() }
    this.#memory.saw(node.index, facts, sample, true)
    if (!isEnrolled(facts)) return
    const pulse = this.#memory.pulseDue(node.index, facts, this.#states(), SIMULATED_PULSE_MS)
    if (pulse === undefined) {
      this.#glances.set(node.index, 0)
      return
    }
    const ms = await call(node, node.runId, this.#ports, () => node.beat(facts.epoch, pulse)).catch(
      () => undefined,
    )
    if (ms !== undefined) this.#memory.wrote(node.index, ms)
  }

  #lookLater(node: SimulatedNode): void {
    const { process, dice } = this.#ports
    process.clock.timer(SIMULATED_PULSE_MS * (0.75 + dice.fraction() / 2), () => {
      void this.#lookOn(node).finally(() => this.#lookLater(node))
    })
  }

  async #lookOn(node: SimulatedNode): Promise<void> {
    if (!(await this.#glance(node))) await this.#look(node)
  }

  #states(): readonly Present[] {
    return this.#ports.nodes.map((_, index) => {
      const facts = this.#present[index]
      return facts && { voting: isEnrolled(facts), facts }
    })
  }
}

function factsOf(node: SimulatedNode): Facts {
  return {
    runId: String(node.runId),
    nodeMs: Math.floor(node.nodeMs),
    epoch: node.epoch,
    quarantine: node.quarantine,
    cluster: CLUSTER,
    pulse: node.pulse,
    durable: node.durable,
    startedNodeMs: node.startedNodeMs,
    evictedKeys: node.evictedKeys,
  }
}
