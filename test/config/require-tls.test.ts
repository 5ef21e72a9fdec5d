/**
 * `FENCEPOST_REQUIRE_TLS`: what would speak in clear text beyond this machine is refused, whatever kind of setting says so. Each table
 * lists where a setting may lead and whether it is then encrypted; with the requirement off nothing of it is an error.
 */
import { describe, expect, test } from 'vitest'
import { describeError } from '../../src/config/errors.ts'
import { type Environment, loadConfig } from '../../src/config/load.ts'
import { oneCertificate } from '../support/certificates.ts'

/** Nothing here leaves the machine. */
const LOCAL: Environment = {
  FENCEPOST_REDIS_NODES: 'embedded',
  FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000',
  FENCEPOST_PROXY_LISTEN: '127.0.0.1:8080',
  FENCEPOST_ADMIN_LISTEN: '127.0.0.1:9090',
  FENCEPOST_API_TOKEN_FILE: '/token',
}
const { cert, key } = oneCertificate()
const CERTIFIED = { FENCEPOST_TLS_CERT_FILE: '/cert', FENCEPOST_TLS_KEY_FILE: '/key' }

function errorsOf(env: Environment, database = ''): string[] {
  const files: Readonly<Record<string, string>> = { '/database': database, '/cert': cert, '/key': key }
  const loaded = loadConfig({ ...LOCAL, ...env }, (path) => files[path] ?? 'content')
  return loaded.kind === 'ok' ? [] : loaded.errors.map(describeError)
}

/** With the requirement on; that nothing is wrong without it is checked along the way. */
function refusals(env: Environment, database?: string): string[] {
  for (const off of [{}, { FENCEPOST_REQUIRE_TLS: 'off' }])
    expect(errorsOf({ ...env, ...off }, database)).toEqual([])
  return errorsOf({ ...env, FENCEPOST_REQUIRE_TLS: 'on' }, database)
}

const REFUSED = 'would speak in clear text beyond this machine, which FENCEPOST_REQUIRE_TLS refuses; '

/** Hosts as every setting with an address takes them. */
const HOSTS: readonly (readonly [host: string, isLocal: boolean])[] = [
  ['127.0.0.1', true],
  ['127.8.9.10', true],
  ['[::1]', true],
  ['localhost', true],
  ['LOCALHOST', true],
  ['0.0.0.0', false],
  ['[::]', false],
  ['10.0.0.1', false],
  ['128.0.0.1', false],
  ['[fd00::1]', false],
  ['app', false],
  ['localhost.example.com', false],
  ['127.0.0.1.example.com', false],
]

test('with the requirement on, what stays on the machine is accepted', () => {
  expect(refusals({})).toEqual([])
})

test('the requirement can be written in the file', () => {
  const loaded = loadConfig(
    { ...LOCAL, FENCEPOST_UPSTREAM: 'http://app', FENCEPOST_CONFIG: '/c' },
    () => 'tls: { require: on }',
  )
  expect(loaded.kind === 'ok' ? [] : loaded.errors.map(describeError)).toEqual([
    expect.stringMatching(/^FENCEPOST_UPSTREAM: http:\/\/app would speak in clear text/),
  ])
})

describe('a node', () => {
  const nodes = (scheme: string, host: string) =>
    [1, 2, 3].map((port) => `${scheme}://${host}:${port}`).join(',')

  test.each(HOSTS)('redis://%s: local %s', (host, isLocal) => {
    const names = [1, 2, 3].map((port) => `redis://${host.toLowerCase()}:${port}`).join(', ')
    expect(refusals({ FENCEPOST_REDIS_NODES: nodes('redis', host) })).toEqual(
      isLocal ? [] : [`FENCEPOST_REDIS_NODES: ${names} ${REFUSED}write rediss:// for each of them`],
    )
  })

  test.each(HOSTS)('rediss://%s is accepted', (host) => {
    expect(refusals({ FENCEPOST_REDIS_NODES: nodes('rediss', host) })).toEqual([])
  })

  test('of several groups the nodes in clear text are named, without user and password', () => {
    const groups =
      'a=rediss://a:1,redis://u:secret@b:1,redis://localhost:1;b=redis://:secret@c:1/2,rediss://d:1,rediss://e:1'
    expect(refusals({ FENCEPOST_REDIS_NODES: groups })).toEqual([
      `FENCEPOST_REDIS_NODES: redis://b:1, redis://c:1 ${REFUSED}write rediss:// for each of them`,
    ])
  })
})

const LISTENERS = [
  ['FENCEPOST_PROXY_LISTEN', 'proxy'],
  ['FENCEPOST_API_LISTEN', 'api'],
  ['FENCEPOST_GATEWAY_LISTEN', 'gateway'],
  ['FENCEPOST_GATEWAY_GRPC_LISTEN', 'gateway'],
  ['FENCEPOST_ADMIN_LISTEN', 'admin'],
] as const

describe.each(LISTENERS)('%s', (setting, name) => {
  const another = name === 'proxy' ? 'api' : 'proxy'
  const include = `add ${name} to FENCEPOST_TLS_LISTENERS`
  const certify = 'give FENCEPOST_TLS_CERT_FILE and FENCEPOST_TLS_KEY_FILE'

  test.each<[tls: string, env: Environment, otherwise: string | undefined]>([
    ['none', { FENCEPOST_TLS_LISTENERS: another }, `${include} and ${certify}`],
    ['no certificate', { FENCEPOST_TLS_LISTENERS: name }, certify],
    ['that of another listener', { ...CERTIFIED, FENCEPOST_TLS_LISTENERS: another }, include],
    ['its own', { ...CERTIFIED, FENCEPOST_TLS_LISTENERS: `${name},${another}` }, undefined],
  ])('TLS: %s', (_tls, env, otherwise) => {
    for (const [host, isLocal] of HOSTS)
      expect([host, refusals({ ...env, [setting]: `${host}:7000` })]).toEqual([
        host,
        isLocal || otherwise === undefined
          ? []
          : [`${setting}: ${host}:7000 ${REFUSED}write 127.0.0.1:7000, or ${otherwise}`],
      ])
    for (const local of ['unix:/a.sock', 'off'])
      expect([local, refusals({ ...env, [setting]: local })]).toEqual([local, []])
  })
})

describe('the application', () => {
  test.each(HOSTS)('http://%s: local %s', (host, isLocal) => {
    expect(refusals({ FENCEPOST_UPSTREAM: `http://${host}:3000` })).toEqual(
      isLocal
        ? []
        : [
            `FENCEPOST_UPSTREAM: http://${host}:3000 ${REFUSED}write https://${host}:3000, or the address of an application on this machine`,
          ],
    )
  })

  test.each(HOSTS)('https://%s is accepted', (host) => {
    expect(refusals({ FENCEPOST_UPSTREAM: `https://${host}:3000` })).toEqual([])
  })

  test('a Unix socket is accepted', () => {
    expect(refusals({ FENCEPOST_UPSTREAM: 'unix:/app.sock' })).toEqual([])
  })

  test('the question about orphans goes to the same address, and is refused with it, once', () => {
    expect(refusals({ FENCEPOST_UPSTREAM: 'http://app', FENCEPOST_SETTLE_PATH: '/settle' })).toHaveLength(1)
  })

  test('without a proxy nobody speaks to it', () => {
    expect(refusals({ FENCEPOST_UPSTREAM: 'http://app', FENCEPOST_PROXY_LISTEN: 'off' })).toEqual([])
  })
})

test('all faults are reported at once, beside the errors of other settings', () => {
  expect(
    errorsOf({
      FENCEPOST_REQUIRE_TLS: 'on',
      FENCEPOST_LEASE: '30',
      FENCEPOST_REDIS_NODES: 'redis://a,redis://b,redis://c',
      FENCEPOST_UPSTREAM: 'http://app',
      ...Object.fromEntries(LISTENERS.map(([setting], index) => [setting, `0.0.0.0:${8080 + index}`])),
    }).map((error) => error.slice(0, error.indexOf(':'))),
  ).toEqual([
    'FENCEPOST_LEASE',
    'FENCEPOST_REDIS_NODES',
    ...LISTENERS.map(([setting]) => setting),
    'FENCEPOST_UPSTREAM',
  ])
})

test.each<[setting: string, env: Environment]>([
  ['FENCEPOST_REDIS_NODES', { FENCEPOST_REDIS_NODES: 'redis://a,redis://b' }],
  ['FENCEPOST_ADMIN_LISTEN', { FENCEPOST_ADMIN_LISTEN: '0.0.0.0' }],
  ['FENCEPOST_TLS_LISTENERS', { FENCEPOST_TLS_LISTENERS: 'all', FENCEPOST_ADMIN_LISTEN: '0.0.0.0:9090' }],
  ['FENCEPOST_UPSTREAM', { FENCEPOST_UPSTREAM: 'http://app/path' }],
  ['FENCEPOST_REQUIRE_TLS', { FENCEPOST_REQUIRE_TLS: 'yes', FENCEPOST_ADMIN_LISTEN: '0.0.0.0:9090' }],
])('%s that is not accepted has that error alone', (setting, env) => {
  expect(errorsOf({ FENCEPOST_REQUIRE_TLS: 'on', ...env })).toEqual([
    expect.stringMatching(new RegExp(`^${setting}: .* is not accepted`)),
  ])
})
