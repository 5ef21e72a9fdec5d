/** What the sweeper, the operator API and `fencepost dead-letters` decide is kept as long as an outcome of any route. */
import { expect, test } from 'vitest'
import { decisionTermsOf } from '../../src/app/settle-question.ts'
import { route } from '../support/proxy.ts'

const config = { leaseMs: 30_000, retentionMs: 86_400_000 }

test.each([
  ['a route that keeps records for longer', 30 * 86_400_000, 30 * 86_400_000],
  ['no route that does', 300_000, 86_400_000],
])('with %s', (_, ofRouteMs, retentionMs) => {
  const routes = [route({ retentionMs: ofRouteMs })]
  expect(decisionTermsOf({ ...config, routes })).toEqual({ leaseMs: 30_000, retentionMs })
})
