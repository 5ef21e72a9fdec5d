/**
 * A state of the model: what each node remembers and has yet to execute, and the phase of each claimant.
 *
 * Owns the shape of a state and the key by which two are the same.
 */

export type Phase = 'idle' | 'claiming' | 'working' | 'renewing' | 'completing' | 'adopting' | 'over'
const PHASES: readonly Phase[] = ['idle', 'claiming', 'working', 'renewing', 'completing', 'adopting', 'over']

export type Claimant = {
  readonly phase: Phase
  readonly round: number
  readonly token: number
  readonly renewals: number
  readonly attempt: number
  /** The outcome that it writes: its own, or the one it adopts. */
  readonly value: number
  /** When its round began: the largest token granted, and whether an outcome had been shown. */
  readonly floor: number
  readonly afterShown: boolean
}

export type Node = {
  readonly record: number
  /** One a claimant: the answer that it heard in its present round; 0: none yet. */
  readonly heard: readonly number[]
  /** Commands under way to this node. */
  readonly pending: readonly number[]
}

export type State = {
  readonly nodes: readonly Node[]
  readonly claimants: readonly Claimant[]
  /** The outcome that a claimant was shown; -1: none. */
  readonly shown: number
  readonly topGranted: number
  readonly duplicates: number
  readonly lostAnswers: number
  readonly lapses: number
}

export function withNode(state: State, index: number, node: Node): State {
  return { ...state, nodes: state.nodes.with(index, node) }
}

export function withPending(pending: readonly number[], command: number): readonly number[] {
  return [...pending, command].sort((a, b) => a - b)
}

/** Two states with the same key are the same, up to the names of nodes. */
export function keyOf(state: State): string {
  const columns = state.nodes
    .map(({ record, heard, pending }) => String.fromCharCode(record, ...heard, 0xffff, ...pending))
    .sort()
    .join('\ufffe')
  let rest = ''
  for (const { phase, round, token, renewals, attempt, value, floor, afterShown } of state.claimants) {
    const small =
      PHASES.indexOf(phase) | (round << 3) | (renewals << 6) | (value << 9) | (Number(afterShown) << 12)
    rest += String.fromCharCode(small, token, attempt, floor)
  }
  const { shown, topGranted, duplicates, lostAnswers, lapses } = state
  return `${columns}\ufffd${rest}${String.fromCharCode(shown + 1, topGranted, duplicates, lostAnswers, lapses)}`
}
