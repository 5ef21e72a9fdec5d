/**
 * What the process on enrolment duty knows of the continuity of the nodes: it writes their pulses and remembers them.
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
import { majorityOf } from '../../src/core/units.ts'
import { SIMULATED_ANSWER_MAX_AGE_MS, SIMULATED_PULSE_MS } from './drains.ts'
import { CLOCK_STEP_MS, CLUSTER, call, type EnrollerPorts, enrolmentNodeOf } from './enroller.ts'
import type { SimulatedNode } from './node.ts'

export type KeeperPorts = Omit<EnrollerPorts, 'keeper'>

export class Keeper {
  readonly #ports: KeeperPorts
  readonly #memory: ContinuityMemory
  readonly #continuing = new Continuing()
  readonly #present: (ContinuityFacts | undefined)[] = []

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
  async look(): Promise<readonly (ContinuityFacts | undefined)[]> {
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

  async #look(node: SimulatedNode): Promise<void> {
    const { process } = this.#ports
    const sentMonoMs = process.clock.monoMs()
    const facts = await call(node, node.runId, this.#ports, () => factsOf(node)).catch(() => undefined)
    this.#present[node.index] = facts
    if (facts === undefined) return
    const sample = { nodeMs: facts.nodeMs, sentMonoMs, receivedMonoMs: process.clock.monoMs() }
    this.#memory.saw(node.index, facts, sample, true)
    if (!isEnrolled(facts)) return
    const pulse = this.#memory.pulseDue(node.index, facts, this.#states(), SIMULATED_PULSE_MS)
    if (pulse === undefined) return
    const ms = await call(node, node.runId, this.#ports, () => node.beat(facts.epoch, pulse)).catch(
      () => undefined,
    )
    if (ms !== undefined) this.#memory.wrote(node.index, ms)
  }

  #lookLater(node: SimulatedNode): void {
    const { process, dice } = this.#ports
    process.clock.timer(SIMULATED_PULSE_MS * (0.75 + dice.fraction() / 2), () => {
      void this.#look(node).finally(() => this.#lookLater(node))
    })
  }

  #states(): readonly Present[] {
    return this.#ports.nodes.map((_, index) => {
      const facts = this.#present[index]
      return facts && { voting: isEnrolled(facts), facts }
    })
  }
}

function factsOf(node: SimulatedNode): ContinuityFacts {
  return {
    runId: String(node.runId),
    nodeMs: Math.floor(node.nodeMs),
    epoch: node.epoch,
    quarantine: node.quarantine,
    cluster: CLUSTER,
    pulse: node.pulse,
    durable: node.durable,
    startedNodeMs: node.startedNodeMs,
  }
}
