/**
 * The way from one process to one node and back: the `RecordNode` that production code sees.
 *
 * Owns what a network does: messages are lost, come twice (and are then executed twice), come late and out of order, and
 * a partition swallows them. It keeps the contract of the port: settled within the node's deadline, never rejected.
 */

import { now } from '../../src/core/clock.ts'
import { NO_INCARNATION, type Voter } from '../../src/core/nodes/member.ts'
import type { NodeAnswer, RecordNode } from '../../src/core/ports.ts'
import { ageMs } from '../../src/core/quorum/tally.ts'
import type { RecordCommand } from '../../src/core/record/record.ts'
import type { Dice } from './dice.ts'
import type { SimulatedNode } from './node.ts'
import { NODE_DEADLINE_MS, type Plan } from './plan.ts'
import type { SimulatedProcess } from './process.ts'
import type { Scheduler } from './scheduler.ts'

export type LinkPorts = {
  readonly scheduler: Scheduler
  readonly process: SimulatedProcess
  readonly node: SimulatedNode
  readonly network: Plan['network']
  readonly dice: Dice
  /** Every answer that reached the process in time. */
  readonly onHeard: (node: number, command: RecordCommand, answer: NodeAnswer) => void
  readonly onTwice: () => void
  /** An answer older than this when it is read does not count. */
  readonly answerMaxAgeMs: number
  readonly onOld: () => void
  /** The node answers that its incarnation is outdated. */
  readonly onForgot: (node: number) => void
  /** An answer of a node of this cluster counts. */
  readonly onCounted: (cluster: string | undefined) => void
}

/** To a command that was sent before the node was inspected anew. */
const RENEWED = { kind: 'unreachable', reason: 'refused', answered: true, detail: 'inspected anew' } as const

export class Link implements RecordNode, Voter {
  readonly name: string
  readonly #ports: LinkPorts
  #cutUntilMs = 0
  #repliesCutUntilMs = 0
  #delayedUntilMs = 0
  #healed = false
  calls = 0
  /** The incarnation at the last inspection; under another one its answers do not count. A new process has inspected all. */
  #incarnation: string | undefined

  constructor(ports: LinkPorts) {
    this.name = ports.node.name
    this.#ports = ports
    this.#incarnation = ports.node.incarnation ?? NO_INCARNATION
  }

  cut(way: 'both' | 'replies', untilMs: number): void {
    if (way === 'both') this.#cutUntilMs = Math.max(this.#cutUntilMs, untilMs)
    else this.#repliesCutUntilMs = Math.max(this.#repliesCutUntilMs, untilMs)
  }

  delay(untilMs: number): void {
    this.#delayedUntilMs = Math.max(this.#delayedUntilMs, untilMs)
  }

  /** From now on messages arrive once, in time and in order. Those under way stay late. */
  heal(): void {
    this.#healed = true
    this.#cutUntilMs = 0
    this.#repliesCutUntilMs = 0
    this.#delayedUntilMs = 0
  }

  useIncarnation(incarnation: string | undefined): void {
    this.#incarnation = incarnation
  }

  sawMemory(): void {}

  execute(command: RecordCommand): Promise<NodeAnswer> {
    const { node, process, dice } = this.#ports
    return new Promise((resolve) => {
      if (this.#incarnation === undefined || (!node.up && dice.chance(0.7))) {
        this.#settle(command, { kind: 'unreachable', reason: 'refused', detail: 'down' }, resolve)
        return
      }
      this.calls += 1
      let open = true
      const { clock } = process
      const askedAt = now(clock)
      const { answerMaxAgeMs, onOld } = this.#ports
      const settle = (answer: NodeAnswer) => {
        if (!open) return
        open = false
        deadline.cancel()
        const old = {
          kind: 'unreachable',
          reason: 'timeout',
          detail: 'read too late',
          answered: true,
        } as const
        const isOld = answer.kind !== 'unreachable' && ageMs(askedAt, now(clock)) > answerMaxAgeMs
        if (isOld) onOld()
        this.#settle(command, isOld ? old : answer, resolve)
      }
      const deadline = process.clock.timer(NODE_DEADLINE_MS, () =>
        settle({ kind: 'unreachable', reason: 'timeout', detail: 'deadline' }),
      )
      this.#send(command, settle)
    })
  }

  #settle(command: RecordCommand, answer: NodeAnswer, resolve: (answer: NodeAnswer) => void): void {
    const { node, onHeard, onForgot } = this.#ports
    onHeard(node.index, command, answer)
    if (answer.kind === 'quarantined' && this.#incarnation !== NO_INCARNATION) onForgot(node.index)
    resolve(answer)
  }

  #send(command: RecordCommand, settle: (answer: NodeAnswer) => void): void {
    const { scheduler, process, node, network, dice, onTwice, onCounted } = this.#ports
    const twice = !this.#healed && dice.chance(network.duplicateRate)
    for (let copy = 0; copy < (twice ? 2 : 1); copy += 1) {
      if (this.#lost(this.#cutUntilMs)) continue
      const { runId } = node
      const incarnation = this.#incarnation
      scheduler.at(Math.max(scheduler.nowMs + this.#delayMs(copy), this.#delayedUntilMs), () =>
        node.arrive(runId, () => {
          const answer = node.execute(command, incarnation)
          const cluster = node.cluster?.id
          if (copy === 1) onTwice()
          if (this.#lost(Math.max(this.#cutUntilMs, this.#repliesCutUntilMs))) return
          scheduler.after(this.#delayMs(0), () =>
            process.deliver(() => {
              if (answer.kind !== 'quarantined') onCounted(cluster)
              settle(this.#incarnation === incarnation ? answer : RENEWED)
            }),
          )
        }),
      )
    }
  }

  #lost(cutUntilMs: number): boolean {
    const { scheduler, network, dice } = this.#ports
    if (scheduler.nowMs < cutUntilMs) return true
    return !this.#healed && dice.chance(network.lossRate)
  }

  #delayMs(copy: number): number {
    const { network, dice } = this.#ports
    if (this.#healed) return network.latencyMs
    const late = dice.chance(copy === 0 ? network.lateRate : 0.5)
    return network.latencyMs + dice.fraction() * (late ? network.lateMs : network.jitterMs)
  }
}
