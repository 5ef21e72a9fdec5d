import { expect, test } from 'vitest'
import { activeProblems, type SeenNow } from '../../../src/core/health/active-problems.ts'
import type { NodeStatus } from '../../../src/core/node-status.ts'

const node = (at: number, of: Partial<NodeStatus> = {}): NodeStatus => ({
  name: `node-${at}`,
  address: `10.0.0.${at}:6379`,
  state: 'voting',
  ...of,
})
const nodes = (...differing: readonly Partial<NodeStatus>[]) =>
  Array.from({ length: 5 }, (_, at) => node(at, differing[at]))

const HEALTHY: SeenNow = {
  nodes: nodes(),
  required: 3,
  failing: new Map(),
  openBreakers: [],
  unprotected: 0,
  sweeperElected: true,
  deadLetters: 0,
}
const down = { state: 'down', reason: 'connection closed' } as const

const ROWS: readonly (readonly [string, Partial<SeenNow>, readonly string[]])[] = [
  ['all is well', {}, []],
  ['nothing is known of sweepers and letters', { sweeperElected: undefined, deadLetters: undefined }, []],
  ['one node is down', { nodes: nodes(down) }, ['FencepostRedisNodeDown']],
  [
    'one node votes and refuses every write',
    { nodes: nodes({ reason: 'it refuses every write: MISCONF' }) },
    ['FencepostRedisNodeDown'],
  ],
  [
    'a majority votes and refuses every write',
    {
      nodes: nodes(
        { reason: 'it refuses every write: MISCONF' },
        { reason: 'MISCONF' },
        { reason: 'MISCONF' },
      ),
    },
    ['FencepostQuorumLost', 'FencepostRedisNodeDown', 'FencepostRedisNodeDown', 'FencepostRedisNodeDown'],
  ],
  ['one node is unfit', { nodes: nodes({ state: 'unfit' }) }, ['FencepostRedisNodeDown']],
  [
    'one node is in quarantine',
    { nodes: nodes({ state: 'quarantined' }) },
    ['FencepostRedisNodeQuarantined'],
  ],
  ['the clock of a node was stepped', { nodes: nodes({ state: 'suspended' }) }, ['FencepostClockStepped']],
  [
    'no vote is spare',
    { nodes: nodes(down, down) },
    ['FencepostQuorumNoSpare', 'FencepostRedisNodeDown', 'FencepostRedisNodeDown'],
  ],
  [
    'the quorum is lost',
    { nodes: nodes(down, down, down) },
    ['FencepostQuorumLost', 'FencepostRedisNodeDown', 'FencepostRedisNodeDown', 'FencepostRedisNodeDown'],
  ],
  [
    'of two groups one is lost',
    {
      nodes: [...nodes(), ...nodes(down, down, down)].map((one, at) => ({
        ...one,
        group: at < 5 ? 'a' : 'b',
      })),
    },
    ['FencepostQuorumLost', 'FencepostRedisNodeDown', 'FencepostRedisNodeDown', 'FencepostRedisNodeDown'],
  ],
  ['a node fills up', { nodes: nodes({ memoryShare: 0.81 }) }, ['FencepostRedisNodeMemoryHigh']],
  ['at four fifths it does not yet', { nodes: nodes({ memoryShare: 0.8 }) }, []],
  [
    'a clock is off',
    { nodes: nodes({ clock: { offsetMs: 90, uncertaintyMs: 1, skewed: true } }) },
    ['FencepostClockSkewHigh'],
  ],
  ['claims are slow', { failing: new Map([['latency', 'claims are slow']]) }, ['FencepostReadinessGateMass']],
  [
    'claims are refused because of the clocks',
    { failing: new Map([['clock', 'clocks']]) },
    ['FencepostClockSkewHigh'],
  ],
  ['it drains', { failing: new Map([['shutdown', 'it is draining']]) }, []],
  ['the breaker is open', { openBreakers: [''] }, ['FencepostCircuitBreakerOpen']],
  ['requests went unprotected', { unprotected: 3 }, ['FencepostFailOpenActive']],
  ['nobody sweeps', { sweeperElected: false }, ['FencepostSweeperMissing']],
  ['questions wait', { deadLetters: 1 }, ['FencepostOrphansOpen']],
]

test.each(ROWS)('%s', (_, differing, runbooks) => {
  expect(activeProblems({ ...HEALTHY, ...differing }).map(({ runbook }) => runbook)).toEqual(runbooks)
})
