/**
 * Makes, registers and exports the metrics of `metric-table.ts`, and those of the process. The only file that uses
 * prom-client.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { getHeapStatistics } from 'node:v8'
import { collectDefaultMetrics, Gauge, Histogram, Registry, type RegistryContentType } from 'prom-client'
import { eventLoopLag } from './event-loop-lag.ts'
import { defineMetrics, type MetricsOptions } from './metric-table.ts'
import {
  type Gauge as AnyGauge,
  type Kinds,
  type MakeGauge,
  type ScrapedMetric,
  talliesOf,
} from './tallies.ts'

/** The part of prom-client's own metrics that an alert or a panel needs. The rest would be a third of all series. */
const RUNTIME_METRICS: ReadonlySet<string> = new Set([
  'process_cpu_seconds_total',
  // Its collector sets the one above.
  'process_cpu_user_seconds_total',
  'process_start_time_seconds',
  'process_resident_memory_bytes',
  'process_open_fds',
  'nodejs_eventloop_lag_seconds',
])

export type Metrics = ReturnType<typeof defineMetrics> & {
  readonly exposition: Exposition
  /** A request was served: the event loop is looked at closely. */
  readonly served: () => void
}

/** The constructor takes a content type, but prom-client's types lack the parameter. */
const OpenRegistry = Registry as unknown as new (
  contentType: RegistryContentType,
) => Registry<RegistryContentType>

/** @param accept of the scrape: OpenMetrics, with exemplars, if it accepts that; else the older text format */
type Exposition = (accept?: string) => Promise<Scrape>
type Scrape = { readonly contentType: string; readonly text: string }

export function createMetrics(options: MetricsOptions): Metrics {
  // Only a registry of this content type accepts histograms with exemplars; each scrape chooses its own.
  const registry = new OpenRegistry(Registry.OPENMETRICS_CONTENT_TYPE)
  const metrics = defineMetrics(kindsOf(registry as unknown as Registry), options)
  const { metric, served } = eventLoopLag()
  runtimeMetrics(registry as unknown as Registry, metric)
  return { ...metrics, exposition: expositionOf(registry), served }
}

function kindsOf(registry: Registry): Kinds {
  return { gauge: gaugesOf(registry), ...talliesOf(register(registry)) }
}

function gaugesOf(registry: Registry): MakeGauge {
  return <L extends string>(
    name: string,
    help: string,
    labels = {} as LabelSets<L>,
    value = 0,
  ): AnyGauge<L> => {
    const made = new Gauge({ name, help, labelNames: Object.keys(labels) as L[], registers: [registry] })
    for (const set of combinations(labels)) made.set(set, value)
    return Object.assign(made, { clear: () => made.reset() })
  }
}

type LabelSets<L extends string> = { readonly [K in L]: readonly string[] }
/** Every combination of the values: `{a: [1, 2], b: [3]}` gives `{a: 1, b: 3}` and `{a: 2, b: 3}`. */
function combinations<L extends string>(labels: LabelSets<L>): Record<L, string>[] {
  let sets: Record<string, string>[] = [{}]
  for (const [name, values] of Object.entries<readonly string[]>(labels))
    sets = sets.flatMap((set) => values.map((value) => ({ ...set, [name]: value })))
  return sets as Record<L, string>[]
}

/** prom-client's types admit only its own metrics; its registry needs no more than this. */
function register(registry: Registry): (metric: ScrapedMetric) => void {
  return (metric) => registry.registerMetric(metric as unknown as Parameters<Registry['registerMetric']>[0])
}

/** prom-client's own monitor of the event loop, which nothing shows here, sleeps for an hour at a time: `event-loop-lag.ts` has its place. */
const NEVER_MS = 3_600_000

function runtimeMetrics(registry: Registry, lag: ScrapedMetric): void {
  const ours = new Set(registry.getMetricsAsArray().map(({ name }) => name))
  collectDefaultMetrics({ register: registry, gcDurationBuckets: [], eventLoopMonitoringPrecision: NEVER_MS })
  const gc = registry.getSingleMetric(GC)
  for (const { name } of registry.getMetricsAsArray())
    if (!ours.has(name) && !RUNTIME_METRICS.has(name)) registry.removeSingleMetric(name)
  if (gc instanceof Histogram) register(registry)(inTwoKinds(gc))
  register(registry)(heapUsed())
  register(registry)(lag)
}

const OPEN_METRICS = 'application/openmetrics-text'

/**
 * A registry of prom-client 15 has one content type, and writing OpenMetrics removes `_total` from the names of its
 * counters permanently. So scrapes are written one after the other, and the names are restored.
 *
 * All that are asked for in one turn of the event loop, before the one that waits has begun, are one: a peer that sends thousands of
 * requests ahead would hold up everything else for as long as they take, and leases would expire meanwhile.
 */
function expositionOf(registry: Registry<RegistryContentType>): Exposition {
  const named = (registry.getMetricsAsArray() as { name: string }[]).map((metric) => ({
    metric,
    name: metric.name,
  }))
  let before: Promise<unknown> = Promise.resolve()
  const write = async (open: boolean): Promise<Scrape> => {
    registry.setContentType(open ? Registry.OPENMETRICS_CONTENT_TYPE : Registry.PROMETHEUS_CONTENT_TYPE)
    try {
      const text = await registry.metrics()
      return { contentType: registry.contentType, text }
    } finally {
      for (const { metric, name } of named) metric.name = name
    }
  }
  /** By whether it is in OpenMetrics. */
  const waiting = new Map<boolean, Promise<Scrape>>()
  const next = async (open: boolean): Promise<Scrape> => {
    await before
    await nextTurn()
    waiting.delete(open)
    return write(open)
  }
  return (accept = '') => {
    const open = accept.includes(OPEN_METRICS)
    const known = waiting.get(open)
    if (known !== undefined) return known
    const written = next(open)
    waiting.set(open, written)
    before = written.catch(() => {})
    return written
  }
}

const GC = 'nodejs_gc_duration_seconds'
const GC_KINDS = ['major', 'minor'] as const

/** The part of prom-client's histogram that is read here. */
type Collected = {
  get(): Promise<{
    readonly values: readonly {
      readonly metricName?: string | undefined
      readonly labels: Readonly<Partial<Record<string, string | number>>>
      readonly value: number
    }[]
  }>
}

/** Instead of V8's four, of which two are steps of a major collection. */
function inTwoKinds(collected: Collected): ScrapedMetric {
  const described = { name: GC, help: 'Time in garbage collection, by kind.', type: 'histogram' } as const
  return {
    ...described,
    getForPromString: async () => {
      const { values } = await collected.get()
      const lines = GC_KINDS.flatMap((kind) => {
        const total = (part: 'sum' | 'count') =>
          values
            .filter(({ metricName }) => metricName === `${GC}_${part}`)
            .filter(({ labels }) => (labels.kind === 'minor' ? 'minor' : 'major') === kind)
            .reduce((sum, { value }) => sum + value, 0)
        const line = (part: string, value: number, labels = {}) => ({
          labels,
          sharedLabels: { kind },
          value,
          metricName: `${GC}_${part}`,
        })
        const count = total('count')
        return [line('bucket', count, { le: '+Inf' }), line('sum', total('sum')), line('count', count)]
      })
      return { ...described, values: lines }
    },
  }
}

const HEAP_USED = 'nodejs_heap_size_used_bytes'

/** prom-client sets this metric where it collects the size of the whole heap: without that collector it would stay 0 for ever. */
function heapUsed(): ScrapedMetric {
  const described = { name: HEAP_USED, help: 'Bytes of the heap in use.', type: 'gauge' } as const
  return {
    ...described,
    getForPromString: async () => ({
      ...described,
      values: [{ labels: {}, value: getHeapStatistics().used_heap_size }],
    }),
  }
}
