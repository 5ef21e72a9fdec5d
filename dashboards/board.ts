/**
 * A dashboard as data: what its panels ask, in which unit, and from which value on it is bad.
 *
 * `grafana.ts` makes Grafana's JSON of it, tests run its queries, and the pictures in docs/ are drawn from it. In queries
 * `J` stands for the matchers of recorded series, which have a job and no instance, and `S` for those of sidecars.
 */

export const J = 'cluster=~"$cluster",namespace=~"$namespace",job=~"$job"'
export const S = `${J},instance=~"$instance"`
/** A line for each application. */
export const BY_JOB = 'cluster, namespace, job'
export const JOB = '{{namespace}}/{{job}}'
/** A line for each sidecar: the name of its pod where Kubernetes gave it one, and its address. */
export const SIDECAR = '{{pod}} {{instance}}'

export type Unit = 's' | 'ms' | 'percentunit' | 'bytes' | 'reqps' | 'short' | 'cps' | 'bool'

export type Panel = {
  readonly title: string
  /** What it shows, and what a reader is to make of it. */
  readonly description: string
  readonly kind: 'timeseries' | 'stat' | 'heatmap' | 'states' | 'alerts'
  readonly unit: Unit
  readonly stacked?: true
  readonly queries: readonly Query[]
  /** From which value on which colour; the first is the base. */
  readonly thresholds: readonly Threshold[]
}
export type Query = { readonly expr: string; readonly legend: string }
export type Threshold = {
  readonly from: number | null
  readonly color: 'green' | 'yellow' | 'orange' | 'red' | 'blue'
}

export type Board = {
  readonly uid: string
  readonly title: string
  readonly description: string
  /** A series that every process of it shows. Default: that of the sidecars' builds. */
  readonly known?: string
  readonly panels: readonly Panel[]
}

export const series = (panel: Omit<Panel, 'kind'>): Panel => ({ kind: 'timeseries', ...panel })

/** Nothing of it is good or bad by itself. */
export const NEUTRAL: readonly Threshold[] = [{ from: null, color: 'blue' }]
/** Anything at all is bad. */
export const NONE_IS_GOOD: readonly Threshold[] = [
  { from: null, color: 'green' },
  { from: 0.000_001, color: 'red' },
]
export const upFrom = (yellow: number, red: number): readonly Threshold[] => [
  { from: null, color: 'green' },
  { from: yellow, color: 'yellow' },
  { from: red, color: 'red' },
]
/** 0 is bad, 1 is good. */
export const UP: readonly Threshold[] = [
  { from: null, color: 'red' },
  { from: 1, color: 'green' },
]

export const rate = (metric: string, labels = '') =>
  `rate(${metric}{${[S, labels].filter((part) => part !== '').join(',')}}[$__rate_interval])`

export const quantile = (q: number, histogram: string, by = '') =>
  `histogram_quantile(${q}, sum by (${by === '' ? 'le' : `${by}, le`}) (${rate(`${histogram}_bucket`)}))`

export const buckets = (histogram: string): readonly Query[] => [
  { expr: `sum by (le) (${rate(`${histogram}_bucket`)})`, legend: '{{le}}' },
]
