/** What stands in the file of settings and would be passed over, because the chart sets it by the environment, which wins. */
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const OPEN = ['--set', 'service.tokenSecret=token,redis.bundled.openToAll=true']
const OPERATOR = 'operator.enabled=true,operator.tokensSecret=tokens,operator.tlsSecret=certificate'
const withConfig = (config: object, ...args: readonly string[]) => [
  ...OPEN,
  '--set-json',
  `config=${JSON.stringify(config)}`,
  ...args,
]
const ELSEWHERE = ['redis://a:6379', 'redis://b:6379', 'redis://c:6379']

/**
 * Bug: the chart was installed, and the pods did something else than the file said. With other nodes in it the service kept its records on the bundled ones, and the sidecars on
 * theirs: a request that reached both was executed twice. With listeners that speak TLS the reservation API took its tokens in clear text.
 */
test.each<[path: string, config: object, args?: readonly string[]]>([
  ['redis.nodes', { redis: { nodes: ELSEWHERE } }],
  ['redis.username', { redis: { username: 'me' } }],
  ['record.onQuorumLoss', { record: { onQuorumLoss: 'local' } }],
  ['listen.api', { listen: { api: '127.0.0.1:8081' } }],
  ['listen.gatewayGrpc', { listen: { gatewayGrpc: 'off' } }],
  ['trust.apiTokenFile', { trust: { apiTokenFile: '/token' } }],
  ['instance', { instance: 'one' }],
  ['listen.operator', { listen: { operator: '127.0.0.1:8084' } }, ['--set', OPERATOR]],
  ['tls.listeners', { tls: { listeners: ['api', 'operator'] } }, ['--set', OPERATOR]],
])('config.%s is refused, which the chart sets by itself', (path, config, args = []) => {
  expect(charts.refusal('fencepost', withConfig(config, ...args))).toContain(
    `config.${path} is given (FENCEPOST_`,
  )
})

test('what the chart does not set is taken from the file, also an empty section', () => {
  const config = {
    redis: { nodeDeadline: '70ms' },
    record: { lease: '40s' },
    listen: null,
    tls: { listeners: ['api'] },
  }
  expect(charts.rendered('fencepost', withConfig(config)).length).toBeGreaterThan(0)
})
