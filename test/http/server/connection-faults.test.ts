/** How soon a server notices that a request takes too long to arrive. That it is answered with 408: `test/http/proxy/lifecycle.test.ts`. */

import { expect, test } from 'vitest'
import { timeoutCheckMs } from '../../../src/http/server/connection-faults.ts'

test.each([
  { of: 'the defaults of requests', headersTimeoutMs: 10_000, requestTimeoutMs: 60_000, checkMs: 2_000 },
  { of: 'probes and scrapes', headersTimeoutMs: 5_000, requestTimeoutMs: 5_000, checkMs: 1_000 },
  {
    of: 'a body that must come sooner than a head',
    headersTimeoutMs: 10_000,
    requestTimeoutMs: 500,
    checkMs: 100,
  },
  { of: 'the smallest limits', headersTimeoutMs: 10, requestTimeoutMs: 10, checkMs: 50 },
  { of: 'the largest limits', headersTimeoutMs: 3_600_000, requestTimeoutMs: 86_400_000, checkMs: 5_000 },
])('connections are checked in a fifth of the shorter limit, 50 ms to 5 s: $of', (limits) => {
  expect(timeoutCheckMs(limits)).toBe(limits.checkMs)
})
