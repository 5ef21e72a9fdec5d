/** The operator listener opens on this machine or with TLS, and never without names. */
import { expect, test } from 'vitest'
import { describeErrors } from '../../src/config/errors.ts'
import { loadConfig } from '../../src/config/load.ts'
import { oneCertificate } from '../support/certificates.ts'

const { cert, key } = oneCertificate()
const TOKENS = `ann view ${'1'.repeat(32)}\n`
const files: Readonly<Record<string, string>> = {
  '/tokens': TOKENS,
  '/bad': 'ann view short\n',
  '/cert': cert,
  '/key': key,
}

function errorsOf(env: Readonly<Record<string, string>>): string {
  const loaded = loadConfig(
    { FENCEPOST_REDIS_NODES: 'redis://a,redis://b,redis://c', FENCEPOST_PROXY_LISTEN: 'off', ...env },
    (path) => files[path] ?? '',
  )
  return loaded.kind === 'ok' ? 'accepted' : describeErrors(loaded.errors)
}

const named = { FENCEPOST_OPERATOR_TOKENS_FILE: '/tokens' }
const certified = { FENCEPOST_TLS_CERT_FILE: '/cert', FENCEPOST_TLS_KEY_FILE: '/key' }
const beyond = { ...named, FENCEPOST_OPERATOR_LISTEN: '0.0.0.0:8083' }

test.each([
  ['off', {}],
  ['on loopback', { ...named, FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:8083' }],
  ['on IPv6 loopback', { ...named, FENCEPOST_OPERATOR_LISTEN: '[::1]:8083' }],
  ['on a Unix socket', { ...named, FENCEPOST_OPERATOR_LISTEN: 'unix:/run/operator.sock' }],
  ['beyond this machine, with TLS', { ...beyond, ...certified, FENCEPOST_TLS_LISTENERS: 'operator' }],
])('%s is accepted', (_, env) => {
  expect(errorsOf(env)).toBe('accepted')
})

test.each([
  [
    'without tokens, also on loopback',
    { FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:8083' },
    'FENCEPOST_OPERATOR_TOKENS_FILE: required while the operator listener is on',
  ],
  [
    'beyond this machine without TLS',
    beyond,
    'FENCEPOST_OPERATOR_LISTEN: 0.0.0.0:8083 would speak in clear text beyond this machine',
  ],
  [
    'beyond this machine with TLS on other listeners',
    { ...beyond, ...certified },
    'add operator to FENCEPOST_TLS_LISTENERS',
  ],
  [
    'with TLS and no certificate',
    { ...beyond, FENCEPOST_TLS_LISTENERS: 'operator' },
    'give FENCEPOST_TLS_CERT_FILE and FENCEPOST_TLS_KEY_FILE',
  ],
  [
    'with tokens that can’t be used',
    { FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:1', FENCEPOST_OPERATOR_TOKENS_FILE: '/bad' },
    'the token on line 1 is not 32 to 512 visible ASCII characters',
  ],
])('%s is refused', (_, env, sentence) => {
  expect(errorsOf(env)).toContain(sentence)
})
