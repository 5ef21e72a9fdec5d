/**
 * Records what the nodes of one simulated history executed, and what claimants concluded from it.
 *
 * Owns the hooks, which stand around the public methods of the simulated nodes, and the order of events. What they mean
 * in the model is `trace.ts`.
 */

import type { NodeAnswer } from '../../src/core/ports.ts'
import type { NodeRecord, RecordCommand } from '../../src/core/record/record.ts'
import { check } from '../simulation/checks.ts'
import { SimulatedNode } from '../simulation/node.ts'
import type { Plan } from '../simulation/plan.ts'
import { World } from '../simulation/world.ts'

/** A record as a node has it at a moment of its own clock. */
export type Kept = {
  readonly record: NodeRecord | undefined
  readonly nodeMs: number
  readonly expiresNodeMs: number
}

export type Event =
  | {
      readonly kind: 'executed'
      readonly node: number
      readonly command: RecordCommand
      readonly answer: NodeAnswer
      readonly counted: boolean
      readonly before: NodeRecord | undefined
      readonly after: Kept
    }
  | {
      readonly kind: 'forgot'
      readonly node: number
      readonly nodeMs: number
      readonly records: ReadonlyMap<string, Kept>
    }
  | { readonly kind: 'told'; readonly node: number; readonly key: string; readonly after: Kept }
  | { readonly kind: 'votes'; readonly node: number }
  | { readonly kind: 'granted'; readonly key: string; readonly token: number; readonly owner: string }
  | { readonly kind: 'shown'; readonly key: string; readonly content: string }

export type Recorded = {
  readonly nodeCount: number
  readonly events: readonly Event[]
  /** More memory was lost, on purpose, than the promises allow, or no cluster was founded before: outside the model. */
  readonly beyond: boolean
  readonly broken: readonly string[]
}

let note: ((event: Event) => void) | undefined

function keptOf(node: SimulatedNode, key: string): Kept {
  const nodeMs = Math.floor(node.nodeMs)
  const kept = node.kept(key)
  return { record: kept?.record, nodeMs, expiresNodeMs: kept === undefined ? nodeMs : nodeMs + kept.ttlMs }
}

function noteForgot(node: SimulatedNode): void {
  const records = new Map([...node.keys].map((key) => [key, keptOf(node, key)] as const))
  note?.({ kind: 'forgot', node: node.index, nodeMs: Math.floor(node.nodeMs), records })
}

const { execute, put, setIncarnation, revoke, restart, restartAsOf, flush } = SimulatedNode.prototype
Object.assign(SimulatedNode.prototype, {
  execute(this: SimulatedNode, command: RecordCommand, incarnation: string | undefined): NodeAnswer {
    const before = this.peek(command.key)
    // A counted answer is recorded as the node gave it; of another only that it did not count.
    const counted = this.voting && incarnation === this.incarnation
    let said: NodeAnswer | undefined
    const answer = execute.call(this, command, incarnation)
    if (counted) said = answer
    if (command.kind !== 'read')
      note?.({
        kind: 'executed',
        node: this.index,
        command,
        answer: said ?? answer,
        counted,
        before,
        after: keptOf(this, command.key),
      })
    return answer
  },
  put(this: SimulatedNode, key: string, record: NodeRecord, ttlMs: number, told: number): void {
    put.call(this, key, record, ttlMs, told)
    note?.({ kind: 'told', node: this.index, key, after: keptOf(this, key) })
  },
  setIncarnation(this: SimulatedNode, ...given: Parameters<typeof setIncarnation>): void {
    setIncarnation.call(this, ...given)
    note?.({ kind: 'votes', node: this.index })
  },
  revoke(this: SimulatedNode, incarnation: string): void {
    const voted = this.voting
    revoke.call(this, incarnation)
    if (voted && !this.voting) noteForgot(this)
  },
  restart(this: SimulatedNode, memory: number): void {
    restart.call(this, memory)
    noteForgot(this)
  },
  restartAsOf(this: SimulatedNode, untilMs: number): void {
    restartAsOf.call(this, untilMs)
    noteForgot(this)
  },
  flush(this: SimulatedNode): void {
    flush.call(this)
    noteForgot(this)
  },
})

/** Runs one history and returns its recorded events, in order. */
export async function record(plan: Plan): Promise<Recorded> {
  const events: Event[] = []
  const world = new World(plan)
  const { grants, shown, violations } = world.history
  note = (event) => events.push(event)
  // At that very moment: a renewal may raise it later.
  onPush(grants, ({ lease: { key, token, owner } }) => events.push({ kind: 'granted', key, token, owner }))
  onPush(shown, ({ key, content }) => events.push({ kind: 'shown', key, content }))
  try {
    await world.run()
  } finally {
    note = undefined
  }
  check(world)
  const broken = [...new Set(violations.map(({ invariant }) => invariant))]
  const beyond = world.overwhelmed || world.tooManyDrained || plan.cluster !== undefined
  return { nodeCount: plan.nodeCount, events, beyond, broken }
}

function onPush<T>(list: T[], tell: (one: T) => void): void {
  list.push = (...ones) => {
    for (const one of ones) tell(one)
    return Array.prototype.push.apply(list, ones)
  }
}
