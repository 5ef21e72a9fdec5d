/**
 * Counters and histograms that cost an addition: numbers while requests are served, text when they are scraped.
 *
 * prom-client finds a series by a string that it builds of all labels at each increment; at sixteen events per request
 * that was most of the cost of counting. Here the counting code holds the series as an object. Owns that, and the
 * interface by which prom-client's registry reads a metric's series (`lib/registry.js` of 15.1.3).
 */

/** One series of a counter, or of an up-down count. */
export class Tally {
  count = 0

  add(by: number): void {
    this.count += by
  }
}

/** The example of an observation, as OpenMetrics shows it. */
type Exemplar = {
  readonly labelSet: { readonly trace_id: string }
  readonly value: number
  readonly timestamp: number
}

/** One set of buckets: the number of observations up to each bound, and their sum. */
class Distribution {
  readonly bounds: readonly number[]
  /** Not cumulative, and one more than bounds: the last one counts what is above all of them. */
  readonly counts: Float64Array
  readonly exemplars: (Exemplar | undefined)[] = []
  sum = 0
  count = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  /** @param traceId present if the trace is recorded */
  observe(value: number, traceId?: string): void {
    if (!Number.isFinite(value)) throw new TypeError(`${value} can't be observed`)
    const { bounds, counts } = this
    let at = 0
    while (at < bounds.length && value > (bounds[at] as number)) at += 1
    counts[at] = (counts[at] as number) + 1
    this.sum += value
    this.count += 1
    if (traceId !== undefined)
      this.exemplars[at] = { labelSet: { trace_id: traceId }, value, timestamp: Date.now() / 1_000 }
  }
}

/** One label and all its values. */
type Label<V extends string> = Readonly<Record<string, readonly V[]>>

/** The constructors of each kind of metric, which also register it. */
export type Kinds = ReturnType<typeof talliesOf> & { readonly gauge: MakeGauge }

/** Constructors of metrics that return their series: by the value of their label, or of two. */
export function talliesOf(register: (metric: ScrapedMetric) => void) {
  const counterByTwo = <A extends string, B extends string>(
    name: string,
    help: string,
    first: Label<A>,
    second: Label<B>,
  ): Record<A, Record<B, Tally>> => {
    const [[one, ones], [two, twos]] = [valuesOf(first), valuesOf(second)]
    const series: Series<Tally>[] = []
    const of = byValue(ones, (a) => byValue(twos, (b) => add(series, { [one]: a, [two]: b }, new Tally())))
    register(tallied({ name, help }, series))
    return of
  }
  const counterBy = <V extends string>(name: string, help: string, label: Label<V>): Record<V, Tally> => {
    const [labelName, values] = valuesOf(label)
    const series: Series<Tally>[] = []
    const of = byValue(values, (value) => add(series, { [labelName]: value }, new Tally()))
    register(tallied({ name, help }, series))
    return of
  }
  const counter = (name: string, help: string): Tally => {
    const of = new Tally()
    register(tallied({ name, help }, [{ labels: {}, of }]))
    return of
  }
  const histogramBy = <V extends string>(
    name: string,
    help: string,
    label: Label<V>,
    buckets: readonly number[],
  ): Record<V, Distribution> => {
    const [labelName, values] = valuesOf(label)
    const series: Series<Distribution>[] = []
    const of = byValue(values, (value) => add(series, { [labelName]: value }, new Distribution(buckets)))
    register(distributed({ name, help }, series))
    return of
  }
  const histogram = (name: string, help: string, buckets: readonly number[]): Distribution => {
    const of = new Distribution(buckets)
    register(distributed({ name, help }, [{ labels: {}, of }]))
    return of
  }
  return { counter, counterBy, counterByTwo, histogram, histogramBy }
}

function valuesOf<V extends string>(label: Label<V>): [name: string, values: readonly V[]] {
  return Object.entries(label)[0] as [string, readonly V[]]
}

function byValue<V extends string, T>(values: readonly V[], make: (value: V) => T): Record<V, T> {
  return Object.fromEntries(values.map((value) => [value, make(value)])) as Record<V, T>
}

function add<T>(series: Series<T>[], labels: Record<string, string>, of: T): T {
  series.push({ labels, of })
  return of
}

/** The labels of one series. */
type Labels = Readonly<Record<string, string>>
type Series<T> = { readonly labels: Labels; readonly of: T }
type Described = { readonly name: string; readonly help: string }

/** The interface of a metric for prom-client's registry, which changes a counter's name while it writes OpenMetrics. */
export type ScrapedMetric = {
  name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly getForPromString: () => Promise<ScrapedSeries>
}
type ScrapedSeries = Pick<ScrapedMetric, 'name' | 'help' | 'type'> & { readonly values: readonly Line[] }
type Line = {
  readonly labels: Readonly<Record<string, string | number>>
  readonly sharedLabels?: Labels
  readonly value: number
  readonly metricName?: string
  readonly exemplar?: Exemplar | null
}

function scraped(
  { name, help }: Described,
  type: ScrapedMetric['type'],
  values: () => readonly Line[],
): ScrapedMetric {
  const metric: ScrapedMetric = {
    name,
    help,
    type,
    getForPromString: () => Promise.resolve({ name: metric.name, help, type, values: values() }),
  }
  return metric
}

function tallied(described: Described, series: readonly Series<Tally>[]) {
  return scraped(described, 'counter', () => series.map(({ labels, of }) => ({ labels, value: of.count })))
}

function distributed(described: Described, series: readonly Series<Distribution>[]) {
  return scraped(described, 'histogram', () => series.flatMap((one) => linesOf(described.name, one)))
}

function linesOf(name: string, { labels: sharedLabels, of }: Series<Distribution>): Line[] {
  let below = 0
  const buckets = [...of.bounds, '+Inf'].map((le, at) => {
    below += of.counts[at] ?? 0
    const exemplar = of.exemplars[at] ?? null
    return { labels: { le }, sharedLabels, value: below, metricName: `${name}_bucket`, exemplar }
  })
  return [
    ...buckets,
    { labels: {}, sharedLabels, value: of.sum, metricName: `${name}_sum` },
    { labels: {}, sharedLabels, value: of.count, metricName: `${name}_count` },
  ]
}

export type Gauge<L extends string> = {
  set(value: number): void
  set(labels: Readonly<Record<L, string>>, value: number): void
  /** Ends all its series. */
  clear(): void
}

/** All series exist at once, at `value` (default 0). */
export type MakeGauge = <L extends string>(
  name: string,
  help: string,
  labels?: Readonly<Record<L, readonly string[]>>,
  value?: number,
) => Gauge<L>
