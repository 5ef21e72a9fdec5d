/** What the overview counts, second by second, on a virtual clock. */
import { expect, test } from 'vitest'
import type { Decision } from '../../../src/core/decision.ts'
import { createTraffic, FATES, TRAFFIC_SECONDS } from '../../../src/core/health/traffic.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

function traffic() {
  const clock = new VirtualClock()
  const { observe, view } = createTraffic(clock)
  const decided = (decision: Decision, durationMs = 10) =>
    observe({
      kind: 'decided',
      entrypoint: 'proxy',
      decision,
      detail: '',
      route: undefined,
      status: 200,
      durationMs,
      keyHash: undefined,
    })
  return { clock, observe, view, decided }
}

test.each<[Decision, (typeof FATES)[number] | undefined]>([
  ['acquired', 'created'],
  ['duplicate_completed', 'replayed'],
  ['duplicate_in_flight', 'waiting'],
  ['fingerprint_mismatch', 'refused'],
  ['quorum_unavailable', 'refused'],
  ['invalid', 'refused'],
  ['overloaded', 'refused'],
  ['fail_open', 'unprotected'],
  ['bypassed', undefined],
])('%s counts as %s', async (decision, fate) => {
  const { clock, view, decided } = traffic()
  decided(decision)
  await clock.advance(1_000)
  const { perSecond } = view()
  expect(FATES.filter((one) => perSecond[one].some((count) => count > 0))).toEqual(fate ? [fate] : [])
})

test('the last place is the last whole second, and what is older than the window is forgotten', async () => {
  const { clock, view, decided } = traffic()
  decided('acquired')
  decided('acquired')
  await clock.advance(1_000)
  decided('acquired')
  expect(view().perSecond.created.slice(-2)).toEqual([0, 2])
  await clock.advance(2_000)
  expect(view().perSecond.created.slice(-3)).toEqual([2, 1, 0])
  await clock.advance(TRAFFIC_SECONDS * 1_000)
  expect(view().perSecond.created).toEqual(Array(TRAFFIC_SECONDS).fill(0))
})

test('quantiles are of the window, and absent without a request', async () => {
  const { clock, view, decided } = traffic()
  expect(view().requests).toEqual({ count: 0 })
  for (let at = 0; at < 90; at += 1) decided('acquired', 10)
  for (let at = 0; at < 10; at += 1) decided('acquired', 500)
  const { count, p50Ms = 0, p95Ms = 0 } = view().requests
  expect([count, p50Ms >= 10 && p50Ms < 11.1, p95Ms >= 500 && p95Ms < 555]).toEqual([100, true, true])
  await clock.advance(3 * TRAFFIC_SECONDS * 1_000)
  expect(view().requests).toEqual({ count: 0 })
})

test('a claim without a round says nothing of the nodes', () => {
  const { observe, view } = traffic()
  const claim = { kind: 'claim_ended', result: 'granted', recordKey: 'k', durationMs: 3 } as const
  observe({ ...claim, rounds: 0 })
  observe({ ...claim, rounds: 1 })
  expect(view().claims.count).toBe(1)
})

test('breakers are as they were said last', () => {
  const { observe, view } = traffic()
  observe({ kind: 'quorum_breaker_changed', from: 'closed', to: 'open' })
  expect(view().openBreakers).toEqual([''])
  observe({ kind: 'quorum_breaker_changed', from: 'half_open', to: 'closed' })
  expect(view().openBreakers).toEqual([])
})
