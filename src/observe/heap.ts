/**
 * The used bytes of the heap, read at each scrape. prom-client sets this metric where it collects the size of the whole
 * heap, which is not exported here: without that collector it would stay 0 for ever.
 */

import { getHeapStatistics } from 'node:v8'
import type { ScrapedMetric } from './tallies.ts'

const HEAP_USED = 'nodejs_heap_size_used_bytes'

export function heapUsed(): ScrapedMetric {
  const described = { name: HEAP_USED, help: 'Bytes of the heap in use.', type: 'gauge' } as const
  return {
    ...described,
    getForPromString: async () => ({
      ...described,
      values: [{ labels: {}, value: getHeapStatistics().used_heap_size }],
    }),
  }
}
