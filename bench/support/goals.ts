/**
 * THE table of goals: what each benchmark is to reach, in which unit, and which of them says so. `docs/internals/performance.md` lists
 * the same rows; a test compares them.
 *
 * Owns the numbers. What a figure is worth is `verdict.ts`, how it is printed is `goal-report.ts`.
 */

export type Goal = {
  /** The program of `npm run bench -- NAME`. */
  readonly bench: string
  readonly what: string
  /** `×` is a ratio of paired rounds: ours over theirs. */
  readonly unit: '×' | 'ms' | 'MiB' | 's' | '% of a core' | '%'
  /** `at most`: small is good, as for processor time. */
  readonly bound: 'at most' | 'at least'
  readonly goal: number
}

export const GOALS = {
  'processor-32': {
    bench: 'naive',
    what: "the sidecar's processor time, unique keys, 32 in flight, over naive autopipelined",
    unit: '×',
    bound: 'at most',
    goal: 0.65,
  },
  'processor-lone': {
    bench: 'naive',
    what: "the sidecar's processor time, unique keys, one in flight, over naive",
    unit: '×',
    bound: 'at most',
    goal: 0.8,
  },
  'p50-lone': {
    bench: 'naive',
    what: 'p50 of a unique key, one in flight, over naive',
    unit: '×',
    bound: 'at most',
    goal: 0.9,
  },
  'p50-lone-distant': {
    bench: 'naive',
    what: 'p50 of a unique key, one in flight, nodes a network away, over naive',
    unit: '×',
    bound: 'at most',
    goal: 0.9,
  },
  'nodes-processor-32': {
    bench: 'naive',
    what: "five nodes' processor time, unique keys, 32 in flight, over naive autopipelined",
    unit: '×',
    bound: 'at most',
    goal: 0.5,
  },
  'unique-over-proxy': {
    bench: 'naive',
    what: 'unique keys a second, 32 in flight, over a bare proxy',
    unit: '×',
    bound: 'at least',
    goal: 0.55,
  },
  'replays-over-proxy': {
    bench: 'naive',
    what: 'replays of one key a second, 32 in flight, over a bare proxy',
    unit: '×',
    bound: 'at least',
    goal: 2,
  },
  'pass-through-over-proxy': {
    bench: 'naive',
    what: 'requests a second that pass through, 32 in flight, over a bare proxy',
    unit: '×',
    bound: 'at least',
    goal: 1.2,
  },
  'cycle-64-over-redlock': {
    bench: 'claims',
    what: 'claim + complete a second, 64 in flight, over acquire + release of redlock',
    unit: '×',
    bound: 'at least',
    goal: 2.5,
  },
  'cycle-lone-p50': {
    bench: 'claims',
    what: 'p50 of claim + complete, one in flight, over acquire + release of redlock',
    unit: '×',
    bound: 'at most',
    goal: 1.2,
  },
  'hot-key-last': {
    bench: 'hot-key',
    what: 'last of 100 duplicates over three sidecars, after the end of the work',
    unit: 'ms',
    bound: 'at most',
    goal: 30,
  },
  'stored-replay': {
    bench: 'stored-replay',
    what: "nodes' processor time of a claim that finds an outcome, over a claim of a free key",
    unit: '×',
    bound: 'at most',
    goal: 1,
  },
  'memory-idle': {
    bench: 'memory',
    what: 'memory of an idle sidecar within 384 MiB',
    unit: 'MiB',
    bound: 'at most',
    goal: 80,
  },
  'memory-64': {
    bench: 'memory',
    what: 'memory with 64 small requests in flight within 384 MiB',
    unit: 'MiB',
    bound: 'at most',
    goal: 120,
  },
  'memory-900': {
    bench: 'memory',
    what: 'memory with 900 small requests in flight within 384 MiB',
    unit: 'MiB',
    bound: 'at most',
    goal: 180,
  },
  ready: {
    bench: 'ready',
    what: 'from the start of the compiled program until it is ready',
    unit: 's',
    bound: 'at most',
    goal: 0.4,
  },
  'idle-processor': {
    bench: 'idle',
    what: "an idle sidecar's own processor time",
    unit: '% of a core',
    bound: 'at most',
    goal: 0.3,
  },
  'idle-node': {
    bench: 'capacity',
    what: 'processor time that one more idle sidecar takes of each node',
    unit: '% of a core',
    bound: 'at most',
    goal: 0.005,
  },
  telemetry: {
    bench: 'telemetry-cost',
    what: "telemetry's part of the sidecar's processor time, traces at 1 %, logs, scrapes",
    unit: '%',
    bound: 'at most',
    goal: 3,
  },
} as const satisfies Record<string, Goal>

export type GoalName = keyof typeof GOALS
export type GoalBench = (typeof GOALS)[GoalName]['bench']
/** The goals of one benchmark. */
export type GoalsOf<B extends GoalBench> = {
  [N in GoalName]: (typeof GOALS)[N]['bench'] extends B ? N : never
}[GoalName]
