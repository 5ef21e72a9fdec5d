/**
 * The bytes of the heap that are in use, asked at each scrape. prom-client sets them where it collects the size of the
 * whole heap, which is not shown here: without that one they would stay 0 for ever.
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
