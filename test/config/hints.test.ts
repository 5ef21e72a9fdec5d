/** What `config check` warns of, among it leases that end before an application may answer, where nobody renews them. */
import { expect, test } from 'vitest'
import { hintsFor } from '../../src/config/hints.ts'
import { loadConfig } from '../../src/config/load.ts'
import { oneCertificate } from '../support/certificates.ts'

test.each<[env: Record<string, string>, warned: number]>([
  [{}, 0],
  [{ FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0' }, 2],
  [{ FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0' }, 2],
  [{ FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0', FENCEPOST_LEASE: '60s' }, 0],
  [{ FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0', FENCEPOST_UPSTREAM_TIMEOUT: '10s' }, 0],
])('%j: %i routes have a lease that is shorter than the application may take', (env, warned) => {
  const loaded = loadConfig(
    { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000', ...env },
    () => '',
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
  const hints = hintsFor(loaded.config).filter((hint) => hint.includes('2 to 3 times the p99'))
  expect(hints.length).toBe(warned)
})

test.each<[lines: readonly string[], warned: number]>([
  [['plain', `k ${Buffer.alloc(32).toString('base64')}`], 1],
  [[`k ${Buffer.alloc(32).toString('base64')}`, 'plain'], 0],
  [[`k ${Buffer.alloc(32).toString('base64')}`], 0],
])('a key ring that does not encrypt yet is a warning: %j', (lines, warned) => {
  const loaded = loadConfig(
    {
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000',
      FENCEPOST_KEY_RING_FILE: '/ring',
    },
    () => lines.join('\n'),
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
  expect(hintsFor(loaded.config).filter((hint) => hint.includes('stored unencrypted'))).toHaveLength(warned)
})

const { cert, key } = oneCertificate()
const certified: Readonly<Record<string, string>> = { '/c': cert, '/k': key }

// Bug: an API that was to speak TLS spoke clear text without a word where its certificate had been forgotten.
test.each<[env: Record<string, string>, warned: string | undefined]>([
  [{}, undefined],
  [{ FENCEPOST_TLS_LISTENERS: 'proxy' }, undefined],
  [{ FENCEPOST_TLS_LISTENERS: 'api' }, 'FENCEPOST_TLS_LISTENERS names api, and without a certificate'],
  [
    { FENCEPOST_TLS_LISTENERS: 'proxy,api' },
    'FENCEPOST_TLS_LISTENERS names proxy, api, and without a certificate',
  ],
  [
    { FENCEPOST_TLS_LISTENERS: 'api', FENCEPOST_TLS_CERT_FILE: '/c', FENCEPOST_TLS_KEY_FILE: '/k' },
    undefined,
  ],
])('%j: listeners that are to speak TLS and have no certificate: %s', (env, warned) => {
  const loaded = loadConfig(
    { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000', ...env },
    (path) => certified[path] ?? 'content',
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
  const hints = hintsFor(loaded.config).filter((hint) => hint.includes('TLS_LISTENERS'))
  expect(hints).toEqual(warned === undefined ? [] : [expect.stringContaining(warned)])
})

// Bug: with redis:// nodes certificates for them were accepted without a word, and everything crossed the network in clear text.
test.each<[nodes: string, env: Record<string, string>, warned: string | undefined]>([
  ['redis', {}, undefined],
  ['redis', { FENCEPOST_REDIS_CA_FILE: '/c' }, 'FENCEPOST_REDIS_CA_FILE is given, and no node'],
  [
    'redis',
    { FENCEPOST_REDIS_CERT_FILE: '/c', FENCEPOST_REDIS_KEY_FILE: '/k' },
    'FENCEPOST_REDIS_CERT_FILE is given, and no node',
  ],
  ['rediss', { FENCEPOST_REDIS_CA_FILE: '/c' }, undefined],
])('nodes of %s:// and %j: %s', (scheme, env, warned) => {
  const nodes = ['a', 'b', 'c'].map((host) => `${scheme}://${host}`).join()
  const loaded = loadConfig(
    { FENCEPOST_REDIS_NODES: nodes, FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000', ...env },
    (path) => certified[path] ?? '',
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
  const hints = hintsFor(loaded.config).filter((hint) => hint.includes('FENCEPOST_REDIS'))
  expect(hints).toEqual(warned === undefined ? [] : [expect.stringContaining(warned)])
})
