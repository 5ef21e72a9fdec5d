/** Certificates and keys in PEM files: what can't be used is refused by the configuration, and no key is shown. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import { certificatesIn } from '../../src/config/certificates.ts'
import { describeErrors } from '../../src/config/errors.ts'
import { type Environment, loadConfig } from '../../src/config/load.ts'
import { makeAuthority } from '../support/certificates.ts'
import { requireProgram } from '../support/programs.ts'

const authority = makeAuthority()
afterAll(() => authority[Symbol.dispose]())
const [one, other] = [authority.sign('one'), authority.sign('other')]
const openssl = (...args: readonly string[]) => execFileSync(requireProgram('openssl'), args).toString()
const cert = one.cert()

function told(env: Environment, files: Readonly<Record<string, string>>): string {
  const loaded = loadConfig(
    { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_PROXY_LISTEN: 'off', ...env },
    (path) => files[path] ?? readFileSync(path, 'utf8'),
  )
  return loaded.kind === 'ok' ? 'accepted' : describeErrors(loaded.errors)
}

describe.each(['FENCEPOST_REDIS_CA_FILE', 'FENCEPOST_TLS_CLIENT_CA_FILE'])('%s', (variable) => {
  const listener = { FENCEPOST_TLS_CERT_FILE: one.certFile, FENCEPOST_TLS_KEY_FILE: one.keyFile }
  const of = (content: string) => told({ ...listener, [variable]: '/file' }, { '/file': content })

  test.each([
    ['one authority', authority.ca()],
    ['a bundle with remarks, of both kinds of lines', `# ours\r\n${authority.ca()}\n# theirs\n${cert}`],
    [
      'one that OpenSSL marked as trusted',
      openssl('x509', '-in', one.certFile, '-trustout', '-addtrust', 'serverAuth'),
    ],
  ])('%s is accepted', (_what, content) => {
    expect(of(content)).toBe('accepted')
  })

  // Bug: each was accepted as a list of no or fewer authorities, and then no node could be trusted, or no client come in.
  test.each([
    ['a key', one.key(), 'the file has no line -----BEGIN CERTIFICATE-----'],
    ['DER', openssl('x509', '-in', one.certFile, '-outform', 'DER'), 'the file has no line'],
    ['the first half of one', cert.slice(0, cert.length / 2), 'the file ends within a certificate'],
    [
      'a bundle whose second one is damaged',
      `${authority.ca()}${cert.replace(/\nMII/, '\nAAA')}${cert}`,
      "certificate 2 of 3 can't be read",
    ],
  ])('%s is refused', (_what, content, why) => {
    expect(of(content)).toContain(`${variable}: "/file" is not accepted (${why}`)
  })
})

describe.each([
  ['FENCEPOST_TLS_CERT_FILE', 'FENCEPOST_TLS_KEY_FILE'],
  ['FENCEPOST_REDIS_CERT_FILE', 'FENCEPOST_REDIS_KEY_FILE'],
])('%s and %s', (certEnv, keyEnv) => {
  const of = (key: string) => told({ [certEnv]: one.certFile, [keyEnv]: '/key' }, { '/key': key })

  test('the two together are accepted', () => {
    expect(of(one.key())).toBe('accepted')
    expect(told({ [certEnv]: one.certFile, [keyEnv]: '/both' }, { '/both': cert + one.key() })).toBe(
      'accepted',
    )
  })

  test('one without the other is refused', () => {
    expect(told({ [certEnv]: one.certFile }, {})).toContain(
      `${keyEnv}: required while ${certEnv} is given, but not set`,
    )
    expect(told({ [keyEnv]: one.keyFile }, {})).toContain(
      `${certEnv}: required while ${keyEnv} is given, but not set`,
    )
  })

  // Bug: `fencepost config check` found nothing wrong, and the start was refused with OpenSSL's words alone.
  test('the key of another certificate is refused', () => {
    expect(of(other.key())).toContain(
      `${certEnv}: key of the certificate (${one.certFile}) = private key (/key, ${keyEnv}) does not hold: they don't belong together`,
    )
  })

  test('a chain that stands before the certificate is refused', () => {
    const files = { '/chain': authority.ca() + cert }
    expect(told({ [certEnv]: '/chain', [keyEnv]: one.keyFile }, files)).toContain('does not hold')
  })

  const encrypted = (...as: readonly string[]) =>
    openssl(...as, '-in', one.keyFile, '-aes256', '-passout', 'pass:a-passphrase')
  test.each([
    ['with a passphrase', encrypted('pkey'), 'the key has a passphrase'],
    ['with a passphrase, in the old form', encrypted('ec'), 'the key has a passphrase'],
    ['that is a certificate', cert, 'the file has no line -----BEGIN PRIVATE KEY-----'],
    ['that ends too soon', one.key().slice(0, 100), "the key can't be read"],
  ])('a key %s is refused, without showing it', (_what, content, why) => {
    const refusal = of(content)
    expect(refusal).toContain(`${keyEnv}: "/key" is not accepted (${why}`)
    expect(refusal).not.toContain(content.split('\n')[1])
  })
})

describe('how long what a file holds can be used', () => {
  const ending = (days: number) => authority.sign(`ends-${days}`, { days }).cert()
  const daysOf = (setting: 'tlsCert' | 'tlsClientCa' | 'redisCert' | 'redisCa', content: string) =>
    certificatesIn({ [setting]: { path: '/file', content } }).map(({ fromMs, untilMs }) =>
      Math.round((untilMs - fromMs) / 86_400_000),
    )

  test.each(['tlsCert', 'redisCert'] as const)(
    '%s: as long as the first of its chain that ends',
    (setting) => {
      expect(daysOf(setting, ending(9) + ending(4))).toEqual([4])
    },
  )

  // Bug: `fencepost doctor` failed for the old authority that a rotation leaves in the file, and for any bundle of a system.
  test.each(['tlsClientCa', 'redisCa'] as const)(
    '%s: as long as the last of its authorities that ends',
    (setting) => {
      expect(daysOf(setting, ending(4) + ending(9) + ending(1))).toEqual([9])
    },
  )

  test('without a file there is nothing to say', () => {
    expect(certificatesIn({})).toEqual([])
  })
})
