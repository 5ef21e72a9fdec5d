/** Whatever is said about their placement and rollout, one machine and one step of a rollout take one node. */
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { podOf } from '../support/kubernetes-objects.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const OPEN = ['--set', 'service.tokenSecret=token,redis.bundled.openToAll=true']

// Bug: it took the place of the whole affinity, so that the machine of a kind took as many nodes as fit, and a majority with it.
test('with a rule about the kind of machine no two nodes stand on one', () => {
  const term = { matchExpressions: [{ key: 'pool', operator: 'In', values: ['large'] }] }
  const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term] } }
  const given = ['--set-json', `redis.bundled.affinity=${JSON.stringify({ nodeAffinity })}`]
  const [usual, placed] = [[], given].map((args) => {
    const set = charts.rendered('fencepost', [...OPEN, ...args]).find(({ kind }) => kind === 'StatefulSet')
    return podOf(set).affinity
  })
  expect(placed).toEqual({ ...usual, nodeAffinity })
})

// Bug: Kubernetes takes that many at once, which three of five nodes and the quorum are.
test('a rollout of several nodes at once is refused', () => {
  const strategy = (most: number) => [
    '--set',
    `redis.bundled.updateStrategy.rollingUpdate.maxUnavailable=${most}`,
  ]
  expect(charts.refusal('fencepost', [...OPEN, ...strategy(3)])).toContain('/redis/bundled/updateStrategy')
  expect(charts.rendered('fencepost', [...OPEN, ...strategy(1)]).length).toBeGreaterThan(0)
})
