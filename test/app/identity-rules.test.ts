/** What sidecars show of how they make requests one: the same digits where a request is the same one at both, others where it is not. */
import { expect, test } from 'vitest'
import { identityRules } from '../../src/app/identity-rules.ts'
import { loadConfig } from '../../src/config/load.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'

function rulesOf(env: Readonly<Record<string, string>> = {}, route: object = {}): string {
  const payments = {
    name: 'payments',
    match: { methods: ['POST'], paths: ['/payments'] },
    mode: 'header',
    ...route,
  }
  const loaded = loadConfig(
    {
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000',
      FENCEPOST_CONFIG: '/routes.yaml',
      ...env,
    },
    () => JSON.stringify({ routes: [payments] }),
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
  return identityRules(loaded.config)
}

test.each<[what: string, env: Record<string, string>, route: object]>([
  ['another environment', { FENCEPOST_ENV: 'staging' }, {}],
  ['another tenant', { FENCEPOST_TENANT: 'other' }, {}],
  ['another version', { FENCEPOST_API_VERSION: 'v2' }, {}],
  ['another header of the tenant', { FENCEPOST_TENANT_HEADER: 'x-shop' }, {}],
  ['no trust in the headers of the scope', { FENCEPOST_TRUST_SCOPE_HEADERS: 'off' }, {}],
  ['another path', {}, { match: { methods: ['POST'], paths: ['/orders'] } }],
  ['another method', {}, { match: { methods: ['PUT'], paths: ['/payments'] } }],
  ['another mode', {}, { mode: 'content' }],
  ['no protection', {}, { mode: 'bypass' }],
  ['another header of the key', {}, { key: { headers: ['x-request-id'] } }],
  ['a key in parts', {}, { key: { parts: [{ header: 'x-order' }, { body: '/id' }] } }],
  ['less of the body', {}, { fingerprint: { exclude: ['/sent_at'] } }],
  ['another principal', {}, { principal: { header: 'x-user' } }],
])('%s is another rule', (_, env, route) => {
  expect(rulesOf(env, route)).toMatch(/^[0-9a-f]{12}$/)
  expect(rulesOf(env, route)).not.toBe(rulesOf())
})

test.each<[what: string, env: Record<string, string>, route: object]>([
  ['another lease', { FENCEPOST_LEASE: '60s' }, { lease: '20s' }],
  ['another retention', {}, { retention: '2h' }],
  ['another name of the route', {}, { name: 'pay' }],
  ['a shorter key allowed', {}, { key: { minLength: 8 } }],
  ['another listener', { FENCEPOST_ADMIN_LISTEN: '127.0.0.1:9191' }, {}],
])('%s is the same rule', (_, env, route) => {
  expect(rulesOf(env, route)).toBe(rulesOf())
})

test('what sidecars show says who has another environment, and who has nodes of its own', {
  timeout: 90_000,
}, async () => {
  await using servers = await startRedisServers(3, { founded: true })
  const env = { FENCEPOST_REDIS_NODES: servers.nodesSetting, FENCEPOST_ENV: 'production' }
  await using usual = await startSidecar(env)
  await using staging = await startSidecar({ ...env, FENCEPOST_ENV: 'staging' })
  await using alone = await startSidecar({ ...env, FENCEPOST_REDIS_NODES: 'embedded' })
  const shown = [usual, staging, alone].map(async ({ admin }) => {
    const text = await (await fetch(`${admin}/metrics`)).text()
    const lines = text.matchAll(
      /^fencepost_identity_info\{env="(.*)",rules="(.*)",node_cluster="(.+)"\} 1$/gm,
    )
    return [...lines].map(([, name, rules, nodes]) => ({ name, rules, nodes }))
  })
  const [[ofUsual] = [], ofStaging, ofAlone] = await Promise.all(shown)
  expect(ofUsual?.name).toBe('production')
  const otherRules = expect.not.stringMatching(`^${ofUsual?.rules}$`)
  expect(ofStaging).toEqual([{ name: 'staging', rules: otherRules, nodes: ofUsual?.nodes }])
  expect(ofAlone).toEqual([{ ...ofUsual, nodes: expect.stringMatching(/^embedded-/) }])
})
