/** How a route says whose a request is: what is accepted, what is refused and why, and that it is printed as it is read. */

import { exportJWK } from 'jose'
import { beforeAll, describe, expect, test } from 'vitest'
import { describeError } from '../../src/config/errors.ts'
import { loadConfig } from '../../src/config/load.ts'
import { printedRoute } from '../../src/config/print.ts'
import { keySetOf, makeKey } from '../support/token-issuer.ts'

const files: Record<string, string> = { '/empty.json': '{"keys":[]}', '/text.json': 'keys' }

beforeAll(async () => {
  const key = await makeKey('a')
  files['/keys.json'] = await keySetOf(key)
  files['/private.json'] = JSON.stringify({ keys: [await exportJWK(key.pair.privateKey)] })
})

function load(principal: unknown, env: Record<string, string> = {}) {
  const routes = [{ name: 'pay', match: {}, mode: 'header', principal }]
  return loadConfig(
    {
      FENCEPOST_CONFIG: '/c.yaml',
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000',
      ...env,
    },
    (path) => {
      const content = path === '/c.yaml' ? JSON.stringify({ routes }) : files[path]
      if (content === undefined) throw new Error(`ENOENT: no such file, open '${path}'`)
      return content
    },
  )
}

const faultsOf = (principal: unknown, env?: Record<string, string>) => {
  const loaded = load(principal, env)
  return loaded.kind === 'ok' ? [] : loaded.errors.map(describeError)
}

const least = {
  issuer: 'https://id.example.com/',
  audience: 'payments',
  jwks: 'https://id.example.com/jwks.json',
}

test('a verified principal with its required members gets every default, and is printed as it is read', () => {
  const loaded = load({ jwt: least })
  if (loaded.kind === 'invalid') throw new Error(loaded.errors.map(describeError).join())
  const [route] = loaded.config.routes
  expect(route).toMatchObject({
    principal: {
      kind: 'verified_jwt',
      claims: ['iss', 'sub'],
      issuer: 'https://id.example.com/',
      audience: ['payments'],
      toleranceMs: 5_000,
      jwks: { url: 'https://id.example.com/jwks.json' },
    },
  })
  const printed = printedRoute(route!).principal
  const again = load(printed)
  expect(again.kind === 'ok' ? again.config.routes[0] : again).toEqual(route)
})

test.each([
  ['several audiences', { ...least, audience: ['a', 'b'] }],
  ['any audience', { ...least, audience: 'any' }],
  ['keys in a file', { issuer: 'x', audience: 'a', jwksFile: '/keys.json' }],
  ['a file until the address has answered', { ...least, jwksFile: '/keys.json' }],
  ['plain http on loopback', { ...least, jwks: 'http://127.0.0.1:9/jwks' }],
])('accepted: %s', (_what, jwt) => {
  expect(faultsOf({ jwt })).toEqual([])
})

test('the order of the claims does not matter', () => {
  const of = (claims: string[]) => {
    const loaded = load({ jwt: { ...least, claims } })
    return loaded.kind === 'ok' ? loaded.config.routes[0] : loaded
  }
  expect(of(['sub', 'iss', 'sub'])).toEqual(of(['iss', 'sub']))
})

test.each<[what: string, jwt: unknown, fault: RegExp]>([
  [
    'no keys',
    { issuer: 'x', audience: 'a' },
    /^routes\[0\]\.principal\.jwt\.jwks: required, but not set; accepted is the address/,
  ],
  ['no issuer', { ...least, issuer: undefined }, /jwt\.issuer: required/],
  ['no audience', { ...least, audience: undefined }, /jwt\.audience: required/],
  [
    'keys over the network in clear text',
    { ...least, jwks: 'http://id.example.com/jwks' },
    /who can change the keys on their way can be any client/,
  ],
  [
    'a password in the address',
    { ...least, jwks: 'https://u:secret@id.example.com/' },
    /"https:\/\/\*\*\*@id\.example\.com\/" is not accepted \(it has a user or a password\)/,
  ],
  [
    'alg none',
    { ...least, algorithms: ['none'] },
    /algorithms\[0\]: "none" is not accepted; accepted is RS256, .*Ed25519/,
  ],
  ['a shared secret', { ...least, algorithms: ['HS256'] }, /algorithms\[0\]: "HS256" is not accepted/],
  [
    'a tolerance that forgives everything',
    { ...least, clockTolerance: '1h' },
    /clockTolerance: "1h" is not accepted; .*to 5m/,
  ],
  ['a misspelt member', { ...least, audiance: 'a' }, /did you mean .*audience/],
  [
    'no file',
    { ...least, jwksFile: '/gone.json' },
    /route pay: principal\.jwt\.jwksFile: "\/gone\.json" is not accepted \(ENOENT/,
  ],
  ['a file that is no JSON', { ...least, jwksFile: '/text.json' }, /\(it is not JSON\)/],
  [
    'a file without a key',
    { ...least, jwksFile: '/empty.json' },
    /\(it has 0 keys, and 1 to 100 are accepted\)/,
  ],
  [
    'a file with a private key',
    { ...least, jwksFile: '/private.json' },
    /\(it has a private or symmetric key, and only public ones are accepted\)/,
  ],
])('refused: %s', (_what, jwt, fault) => {
  expect(faultsOf({ jwt })).toEqual([expect.stringMatching(fault)])
})

describe('a claim that is not verified', () => {
  test.each<[what: string, env: Record<string, string>, faults: readonly RegExp[]]>([
    [
      'with any peer of the proxy trusted',
      {},
      [/FENCEPOST_TRUSTED_PEERS is any: whoever reaches the proxy could read/],
    ],
    ['with named peers', { FENCEPOST_TRUSTED_PEERS: '10.0.0.0/8' }, []],
    ['with no peers', { FENCEPOST_TRUSTED_PEERS: 'none' }, []],
    ['without a proxy', { FENCEPOST_PROXY_LISTEN: 'off' }, []],
    [
      'where nobody is trusted',
      { FENCEPOST_TRUSTED_PEERS: '10.0.0.0/8', FENCEPOST_TRUST_SCOPE_HEADERS: 'off' },
      [/FENCEPOST_TRUST_SCOPE_HEADERS is off/],
    ],
  ])('%s', (_what, env, faults) => {
    expect(faultsOf({ jwt: 'sub' }, env)).toEqual(faults.map((fault) => expect.stringMatching(fault)))
  })
})
