/**
 * Garbage collection in two kinds instead of V8's four: two of those are steps of a major collection and count as one
 * here. Owns the sums; prom-client measures.
 */

import type { ScrapedMetric } from './tallies.ts'

export const GC = 'nodejs_gc_duration_seconds'
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

export function inTwoKinds(collected: Collected): ScrapedMetric {
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
