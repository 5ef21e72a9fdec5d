/**
 * Every interleaving of a few claimants on three nodes, under the real rules.
 *
 * Owns the search: states, what may happen next, and what must be true in each. What a node does is `record-rules.ts`,
 * what a round amounts to is `core/quorum/`; the claimant here is `claim.ts` and `leases.ts` with every wait made a
 * choice.
 *
 * A message may be executed at any time after it was sent, or never; a bounded number of them twice; a bounded number
 * of answers is lost. A claimant may give up on missing answers at any time, and stop for good at any time. There are
 * no clocks: a lease may lapse at any time, on each node for itself. So the result rests on no clock.
 *
 * States that differ only in which node is which are one state.
 */

import type { NodeAnswer } from '../../src/core/ports.ts'
import { explainRefusedClaim } from '../../src/core/quorum/refused-claim.ts'
import { bestCompleted } from '../../src/core/quorum/tally.ts'
import { type Claimant, keyOf, type Node, type State, withNode, withPending } from './state.ts'
import { Tables } from './tables.ts'

const NODES = 3
const NEEDED = 2

export type Bounds = {
  readonly claimants: number
  /** Rounds of proposals that each claimant makes at most. */
  readonly rounds: number
  /** Whether claimants begin with the same token, as those whose clocks show the same do, or each with a larger one. */
  readonly firstTokens: 'equal' | 'rising'
  /** Messages that are executed twice, in all. */
  readonly duplicates: number
  /** Answers that are lost although the node executed the command, in all. */
  readonly lostAnswers: number
  /** Leases that lapse, counted on each node. */
  readonly lapses: number
  /** How often each holder renews at most. */
  readonly renewals: number
  /** Longest sequence of steps that is followed: an act of a claimant, a command executed on a node, a lease lapsed. */
  readonly stepsMax: number
}

export type Found = { readonly invariant: string; readonly path: readonly string[] }

export type Explored = {
  readonly states: number
  readonly transitions: number
  /** No state has a step left: there are no longer sequences. */
  readonly complete: boolean
  readonly found: Found | undefined
  /** What was reached, so that an empty search is not taken for a clean one. */
  readonly reached: ReadonlySet<string>
}

type Next = { readonly label: string; readonly state: State; readonly broken?: string }

export function explore(bounds: Bounds): Explored {
  return new Explorer(bounds).run()
}

class Explorer {
  readonly #bounds: Bounds
  readonly #tables = new Tables()
  readonly #reached = new Set<string>()

  constructor(bounds: Bounds) {
    this.#bounds = bounds
  }

  run(): Explored {
    const first = this.#first()
    const parents = new Map<string, { readonly from: string; readonly label: string } | undefined>()
    const firstKey = keyOf(first)
    parents.set(firstKey, undefined)
    let level: { readonly state: State; readonly key: string }[] = [{ state: first, key: firstKey }]
    let transitions = 0
    for (let steps = 0; level.length > 0 && steps < this.#bounds.stepsMax; steps += 1) {
      const nextLevel: typeof level = []
      for (const here of level) {
        for (const { label, state, broken } of this.#next(here.state)) {
          transitions += 1
          if (broken !== undefined) {
            const path = [...pathTo(here.key, parents), label]
            return this.#explored(parents.size, transitions, false, { invariant: broken, path })
          }
          const next = this.#withoutSpent(state)
          const key = keyOf(next)
          if (parents.has(key)) continue
          parents.set(key, { from: here.key, label })
          nextLevel.push({ state: next, key })
        }
      }
      level = nextLevel
    }
    return this.#explored(parents.size, transitions, level.length === 0, undefined)
  }

  #explored(states: number, transitions: number, complete: boolean, found: Found | undefined): Explored {
    return { states, transitions, complete, found, reached: this.#reached }
  }

  #first(): State {
    const { claimants, duplicates, lostAnswers, lapses } = this.#bounds
    const heard = new Array<number>(claimants).fill(0)
    const idle: Claimant = {
      phase: 'idle',
      round: 0,
      token: 0,
      renewals: 0,
      attempt: 0,
      value: 0,
      floor: 0,
      afterShown: false,
    }
    return {
      nodes: Array.from({ length: NODES }, () => ({ record: 0, heard, pending: [] })),
      claimants: Array.from({ length: claimants }, () => idle),
      shown: -1,
      topGranted: 0,
      duplicates,
      lostAnswers,
      lapses,
    }
  }

  /**
   * Without commands that can have no effect, now or later, and whose answer no claimant waits for: those below the
   * fence, which never goes down. (That they have none is checked as they are left out.)
   */
  #withoutSpent(state: State): State {
    const nodes = state.nodes.map((node) => {
      const pending = node.pending.filter((command) => {
        const { claimant, serial, token } = this.#tables.command(command)
        if (token >= this.#tables.fenceOf(node.record)) return true
        if (this.#serialOf(state.claimants[claimant]!) === serial && node.heard[claimant] === 0) return true
        if (this.#tables.apply(node.record, command).record !== node.record)
          throw new Error(`${this.#tables.say(command)} changes a record with a larger fence`)
        return false
      })
      return pending.length === node.pending.length ? node : { ...node, pending }
    })
    return { ...state, nodes }
  }

  *#next(state: State): Generator<Next> {
    for (const index of state.nodes.keys()) yield* this.#atNode(state, index)
    for (const index of state.claimants.keys()) yield* this.#byClaimant(state, index)
  }

  /** A command is executed, or a lease lapses. */
  *#atNode(state: State, index: number): Generator<Next> {
    const node = state.nodes[index]!
    for (const [at, command] of node.pending.entries()) {
      if (at > 0 && node.pending[at - 1] === command) continue
      const { claimant, serial } = this.#tables.command(command)
      const effect = this.#tables.apply(node.record, command)
      const label = `node ${index} executes ${this.#tables.say(command)}: ${this.#tables.answer(effect.answer).kind}`
      if (this.#tables.fenceOf(effect.record) < this.#tables.fenceOf(node.record)) {
        yield { label, state, broken: 'fence lowered' }
      }
      const listens = this.#serialOf(state.claimants[claimant]!) === serial && node.heard[claimant] === 0
      const after: Node = { ...node, record: effect.record, pending: node.pending.toSpliced(at, 1) }
      const told = listens ? { ...after, heard: node.heard.with(claimant, effect.answer) } : after
      yield { label, state: withNode(state, index, told) }
      if (listens && state.lostAnswers > 0) {
        const lost = withNode(state, index, after)
        yield { label: `${label}, unheard`, state: { ...lost, lostAnswers: state.lostAnswers - 1 } }
      }
      if (state.duplicates > 0) {
        const twice = withNode(state, index, { ...told, pending: node.pending })
        yield { label: `${label}, and again later`, state: { ...twice, duplicates: state.duplicates - 1 } }
      }
    }
    const lapsed = this.#tables.lapse(node.record)
    if (lapsed !== node.record && state.lapses > 0) {
      const after = withNode(state, index, { ...node, record: lapsed })
      yield { label: `the lease lapses on node ${index}`, state: { ...after, lapses: state.lapses - 1 } }
    }
  }

  *#byClaimant(state: State, index: number): Generator<Next> {
    const claimant = state.claimants[index]!
    switch (claimant.phase) {
      case 'idle':
        yield { label: `${index} begins`, state: this.#propose(state, index, 0, 0) }
        return
      case 'claiming':
        yield* this.#decideClaim(state, index, false)
        yield* this.#decideClaim(state, index, true)
        return
      case 'working':
        yield {
          label: `${index} completes`,
          state: this.#send(state, index, { ...claimant, phase: 'completing', value: index }),
        }
        yield { label: `${index} releases`, state: this.#releaseAll(state, index) }
        if (claimant.renewals < this.#bounds.renewals) {
          const renewing: Claimant = {
            ...claimant,
            phase: 'renewing',
            renewals: claimant.renewals + 1,
            floor: state.topGranted,
          }
          yield { label: `${index} renews`, state: this.#send(state, index, renewing) }
        }
        return
      case 'renewing': {
        // Whatever the replies, the holder goes on working, as while a renewal is under way.
        const back = this.#moved(state, index, { ...claimant, phase: 'working' })
        const majorityReached = this.#votes(state, index, 'renewed') >= NEEDED
        const overtaken = majorityReached && claimant.floor > claimant.token
        if (overtaken)
          yield {
            label: `${index} renewed`,
            state,
            broken: 'renewed although another was granted before it asked',
          }
        yield { label: `${index} goes on`, state: back }
        return
      }
      case 'completing':
      case 'adopting':
        yield* this.#decideWritten(state, index)
        return
      case 'over':
    }
  }

  /** As `proposeOnce` in claim.ts; `settled`: missing answers are given up. */
  *#decideClaim(state: State, index: number, settled: boolean): Generator<Next> {
    const claimant = state.claimants[index]!
    const ids = state.nodes.map((node) => node.heard[index]!)
    const all = ids.every((id) => id !== 0)
    if (all !== settled && (all || !ids.some((id) => id !== 0))) return
    const answers = ids.map((id) => (id === 0 ? (settled ? SILENT : undefined) : this.#tables.answer(id)))
    const granted = answers.filter((answer) => answer?.kind === 'granted')
    const carried = granted.length >= NEEDED
    const attempt = Math.max(1, ...granted.map((answer) => (answer?.kind === 'granted' ? answer.attempt : 1)))
    if (carried && attempt > 1 && !settled) return
    if (carried && bestCompleted(answers) === undefined) {
      yield this.#grant(state, index, attempt)
      return
    }
    const refusal = explainRefusedClaim(answers, settled)
    switch (refusal.kind) {
      case 'undecided':
        return
      case 'completed': {
        this.#reached.add('answered from the record')
        const value = this.#tables.valueOf(refusal.chosen.outcome)
        yield this.#show(state, index, value, this.#spread(state, index, refusal.chosen, answers))
        return
      }
      case 'minority_outcome':
        if (refusal.mayWriteBack) {
          this.#reached.add('adopts')
          const value = this.#tables.valueOf(refusal.best.outcome)
          const adopting = this.#send(state, index, { ...claimant, phase: 'adopting', value })
          yield { label: `${index} adopts the outcome of ${value}`, state: adopting }
          return
        }
        yield* this.#again(state, index, answers, refusal.above)
        return
      case 'stale':
      case 'contended':
        yield* this.#again(state, index, answers, refusal.above)
        return
      case 'held':
      case 'unavailable':
      case 'mismatch':
      case 'skewed':
        yield* this.#again(state, index, answers, 0)
    }
  }

  #grant(state: State, index: number, attempt: number): Next {
    const claimant = state.claimants[index]!
    const label = `${index} is granted token ${claimant.token}, attempt ${attempt}`
    this.#reached.add(attempt > 1 ? 'takes over' : 'granted')
    const working = this.#moved(state, index, { ...claimant, phase: 'working', attempt })
    const after = { ...working, topGranted: Math.max(state.topGranted, claimant.token) }
    if (claimant.token <= claimant.floor) return { label, state: after, broken: 'token order' }
    if (claimant.afterShown) return { label, state: after, broken: 'granted after an outcome was shown' }
    return { label, state: after }
  }

  /** As `complete` in leases.ts and `adopt` in claim.ts. */
  *#decideWritten(state: State, index: number): Generator<Next> {
    const claimant = state.claimants[index]!
    const answers = state.nodes.map((node) => this.#tables.answer(node.heard[index]!))
    if (answers.filter(({ kind }) => kind === 'recorded').length >= NEEDED) {
      this.#reached.add(claimant.phase === 'adopting' ? 'adopted' : 'recorded')
      const over = this.#moved(state, index, { ...claimant, phase: 'over' })
      yield this.#show(state, index, claimant.value, over)
      return
    }
    const best = bestCompleted(answers)
    if (claimant.phase === 'completing' && best !== undefined && best.holders >= NEEDED) {
      this.#reached.add('fenced, and shown the winner')
      const over = this.#moved(state, index, { ...claimant, phase: 'over' })
      yield this.#show(state, index, this.#tables.valueOf(best.best.outcome), over)
      return
    }
    // Given up, although commands may still be under way.
    if (claimant.phase === 'adopting')
      yield* this.#again(state, index, [undefined, undefined, undefined], claimant.token)
  }

  #show(state: State, index: number, value: number, after: State): Next {
    const label = `${index} shows the outcome of ${value}`
    if (state.shown !== -1 && state.shown !== value)
      return { label, state: after, broken: 'two outcomes shown' }
    return { label, state: { ...after, shown: value } }
  }

  /** Releases where something may have been granted, and proposes again or is over. */
  *#again(
    state: State,
    index: number,
    answers: readonly (NodeAnswer | undefined)[],
    above: number,
  ): Generator<Next> {
    const claimant = state.claimants[index]!
    const release = this.#tables.release(index, claimant.token)
    const nodes = state.nodes.map((node, at) => {
      const answer = answers[at]
      const maybe = answer === undefined || answer.kind === 'granted' || answer.kind === 'unreachable'
      return maybe ? { ...node, pending: withPending(node.pending, release) } : node
    })
    const released = { ...state, nodes }
    if (claimant.round + 1 < this.#bounds.rounds) {
      yield {
        label: `${index} proposes again`,
        state: this.#propose(released, index, claimant.round + 1, above),
      }
      return
    }
    yield { label: `${index} gives up`, state: this.#moved(released, index, { ...claimant, phase: 'over' }) }
  }

  #releaseAll(state: State, index: number): State {
    const claimant = state.claimants[index]!
    const release = this.#tables.release(index, claimant.token)
    const nodes = state.nodes.map((node) => ({ ...node, pending: withPending(node.pending, release) }))
    return this.#moved({ ...state, nodes }, index, { ...claimant, phase: 'over' })
  }

  #spread(
    state: State,
    index: number,
    { outcome, acceptedToken }: { readonly outcome: Buffer; readonly acceptedToken: number },
    answers: readonly (NodeAnswer | undefined)[],
  ): State {
    const claimant = state.claimants[index]!
    const value = this.#tables.valueOf(outcome)
    const complete = this.#tables.complete(index, claimant.token, value, 1, acceptedToken)
    const nodes = state.nodes.map((node, at) =>
      answers[at]?.kind === 'granted' ? { ...node, pending: withPending(node.pending, complete) } : node,
    )
    return this.#moved({ ...state, nodes }, index, { ...claimant, phase: 'over' })
  }

  #propose(state: State, index: number, round: number, above: number): State {
    const claimant = state.claimants[index]!
    const ahead = this.#bounds.firstTokens === 'rising' ? index : 0
    const token = Math.max(claimant.token + 1, above + 1, round * 4 + 1 + ahead)
    const claiming: Claimant = {
      ...claimant,
      phase: 'claiming',
      round,
      token,
      floor: state.topGranted,
      afterShown: state.shown !== -1,
    }
    return this.#send(state, index, claiming)
  }

  /** Sends the command of the phase to every node. */
  #send(state: State, index: number, claimant: Claimant): State {
    const command = this.#commandOf(index, claimant)
    const moved = this.#moved(state, index, claimant)
    const nodes = moved.nodes.map((node) => ({ ...node, pending: withPending(node.pending, command) }))
    return { ...moved, nodes }
  }

  #commandOf(index: number, { phase, token, value, attempt }: Claimant): number {
    switch (phase) {
      case 'claiming':
        return this.#tables.claim(index, token)
      case 'renewing':
        return this.#tables.renew(index, token, attempt)
      case 'completing':
      case 'adopting':
        return this.#tables.complete(index, token, value, Math.max(1, attempt))
      case 'idle':
      case 'working':
      case 'over':
        throw new Error(`no command is sent in phase ${phase}`)
    }
  }

  /** Another phase: answers to earlier commands no longer count. */
  #moved(state: State, index: number, claimant: Claimant): State {
    const nodes = state.nodes.map((node) =>
      node.heard[index] === 0 ? node : { ...node, heard: node.heard.with(index, 0) },
    )
    return { ...state, nodes, claimants: state.claimants.with(index, claimant) }
  }

  #serialOf(claimant: Claimant): string {
    return `${claimant.phase} ${claimant.token}`
  }

  #votes(state: State, index: number, kind: NodeAnswer['kind']): number {
    return state.nodes.filter((node) => this.#tables.answer(node.heard[index]!).kind === kind).length
  }
}

const SILENT: NodeAnswer = { kind: 'unreachable', reason: 'timeout', detail: '' }

function pathTo(
  key: string,
  parents: ReadonlyMap<string, { readonly from: string; readonly label: string } | undefined>,
): readonly string[] {
  const path: string[] = []
  for (let at = parents.get(key); at !== undefined; at = parents.get(at.from)) path.unshift(at.label)
  return path
}
