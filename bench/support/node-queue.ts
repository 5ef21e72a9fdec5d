/**
 * A simulated node that serves one command at a time, first come first served, as Redis does, behind a network that
 * takes time. It answers by the record rules; the subject is its behaviour under overload.
 */
import type { NodeAnswer, RecordNode } from '../../src/core/ports.ts'
import type { RecordCommand } from '../../src/core/record/record.ts'
import { EmbeddedNode } from '../../src/embedded/node.ts'
import type { Scheduler } from '../../test/simulation/scheduler.ts'
import { VIRTUAL_START_WALL_MS } from '../../test/support/virtual-clock.ts'

/** The default of `FENCEPOST_NODE_DEADLINE`. */
const NODE_DEADLINE_MS = 80

export class NodeQueue {
  readonly #node: EmbeddedNode
  readonly #scheduler: Scheduler
  readonly #serviceMs: number
  #busyUntilMs = 0

  constructor(index: number, scheduler: Scheduler, serviceMs: number) {
    this.#node = new EmbeddedNode(`redis-${index}`, () => VIRTUAL_START_WALL_MS + scheduler.nowMs, 10_000)
    this.#scheduler = scheduler
    this.#serviceMs = serviceMs
  }

  /** @param delayMs of one way over the network */
  seenFrom(delayMs: () => number): RecordNode {
    return { name: this.#node.name, execute: (command) => this.#execute(command, delayMs) }
  }

  #execute(command: RecordCommand, delayMs: () => number): Promise<NodeAnswer> {
    const scheduler = this.#scheduler
    return new Promise((resolve) => {
      const deadline = scheduler.after(NODE_DEADLINE_MS, () =>
        resolve({ kind: 'unreachable', reason: 'timeout', detail: 'deadline' }),
      )
      scheduler.after(delayMs(), () => {
        this.#busyUntilMs = Math.max(this.#busyUntilMs, scheduler.nowMs) + this.#serviceMs
        scheduler.at(this.#busyUntilMs, () => {
          const answer = this.#node.apply(command)
          scheduler.after(delayMs(), () => {
            deadline.cancel()
            resolve(answer)
          })
        })
      })
    })
  }
}
