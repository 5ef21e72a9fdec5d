/**
 * Whether operations that overlapped in time can be put in one order that a sequential model allows.
 *
 * Owns the search, and no model. An operation takes effect at one moment between its start and its end; one without a
 * known end may take effect at any later moment, or never. The number of steps is bounded: beyond it the verdict is
 * `undecided`, which is neither green nor red and is reported.
 *
 * Source: J. Wing and C. Gong, "Testing and Verifying Concurrent Objects" (1993), with G. Lowe's memory of what was tried.
 */

export type Timed = {
  readonly startMs: number
  readonly endMs: number
  /** It may have taken effect, now or later, or not at all. */
  readonly optional: boolean
}

export type Model<State, Op extends Timed> = {
  readonly initial: State
  /** Undefined where the model does not allow it. */
  step(state: State, op: Op): State | undefined
  /** Equal states have equal names. */
  nameOf(state: State): string
}

export type Verdict = 'linearizable' | 'violated' | 'undecided'

const stepsMax = 200_000

export function linearize<State, Op extends Timed>(ops: readonly Op[], model: Model<State, Op>): Verdict {
  const sorted = [...ops].sort((a, b) => a.startMs - b.startMs)
  const tried = new Set<string>()
  let steps = 0

  /** @param done indices of operations that have taken effect; all before `from` have */
  function search(state: State, done: ReadonlySet<number>, from: number): Verdict {
    let first = from
    while (done.has(first)) first += 1
    const left: number[] = []
    for (let index = first; index < sorted.length; index += 1) if (!done.has(index)) left.push(index)
    // An operation that has ended took effect before any that starts after its end.
    const required = left.filter((index) => sorted[index]?.optional === false)
    if (required.length === 0) return 'linearizable'
    const horizonMs = Math.min(...required.map((index) => sorted[index]?.endMs ?? 0))
    const name = `${model.nameOf(state)} ${left.join(',')}`
    if (tried.has(name)) return 'violated'
    tried.add(name)
    steps += 1
    if (steps > stepsMax) return 'undecided'
    for (const index of left) {
      const op = sorted[index]
      if (op === undefined || op.startMs > horizonMs) break
      const next = model.step(state, op)
      if (next === undefined) continue
      const verdict = search(next, new Set([...done].filter((each) => each >= first)).add(index), first)
      if (verdict !== 'violated') return verdict
    }
    return 'violated'
  }

  return search(model.initial, new Set(), 0)
}
