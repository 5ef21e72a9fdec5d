/** Files with secrets: what is accepted, and that their content is never shown. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { describeErrors } from '../../src/config/errors.ts'
import { loadConfig } from '../../src/config/load.ts'
import { rowOf, SETTING_KEYS } from '../../src/config/settings.ts'

const KEY = Buffer.alloc(32, 1).toString('base64')

const load = (variable: string, content: string) =>
  loadConfig(
    { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_PROXY_LISTEN: 'off', [variable]: '/file' },
    () => content,
  )

describe.each([
  ['FENCEPOST_KEY_RING_FILE', 'keyRing'] as const,
  ['FENCEPOST_RESERVATION_SECRET_FILE', 'reservationSecret'] as const,
])('%s', (variable, setting) => {
  const good = { keyRing: `k ${KEY}\n`, reservationSecret: `${'s'.repeat(32)}\n${'t'.repeat(40)}\n` }[setting]
  const bad = { keyRing: `k ${KEY.slice(4)}\n`, reservationSecret: `${'s'.repeat(31)}\n` }[setting]

  test('a file with secrets is read, and shown by its path only', () => {
    const loaded = load(variable, good)
    if (loaded.kind === 'invalid') throw new Error(describeErrors(loaded.errors))
    expect(rowOf(setting).kind.print(loaded.config[setting])).toBe('/file')
  })

  test('a file with a secret that is too short is refused, without showing it', () => {
    const loaded = load(variable, bad)
    if (loaded.kind === 'ok') throw new Error('it was accepted')
    const told = describeErrors(loaded.errors)
    expect(told).toContain(`${variable}: "/file" is not accepted`)
    expect(told).not.toContain(KEY.slice(4, 20))
    expect(told).not.toContain('sssss')
  })
})

/** Bug: the page printed two keys, of which the first was too short, and the second one that everybody knows. */
test('what docs/reference/http.md runs makes a key ring that is accepted', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/reference/http.md'), 'utf8')
  const [, command = ''] = /^## Encryption\n[\s\S]*?^```sh\n([\s\S]*?)^```$/m.exec(page) ?? []
  const folder = mkdtempSync(join(tmpdir(), 'key-ring-'))
  try {
    execFileSync('sh', ['-c', command], { cwd: folder })
    const loaded = load('FENCEPOST_KEY_RING_FILE', readFileSync(join(folder, 'key-ring'), 'utf8'))
    expect(loaded.kind === 'invalid' ? describeErrors(loaded.errors) : 'accepted').toBe('accepted')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

/** Every setting that names a file, given a secret in place of its path, as a variable from a Secret would. */
describe.each(SETTING_KEYS.map(rowOf).filter(({ env }) => env.endsWith('_FILE')))('$env', ({ env }) => {
  const told = (given: string) => {
    const loaded = loadConfig(
      { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_PROXY_LISTEN: 'off', [env]: given },
      (path) => {
        throw new Error(`ENOENT: no such file or directory, open '${path}'`)
      },
    )
    if (loaded.kind === 'ok') throw new Error('it was accepted')
    return describeErrors(loaded.errors)
  }

  // Bug: whatever had a slash was taken for a path, and shown: whole private keys, URLs with a password, every second secret in base64.
  test.each([
    [
      'a private key',
      '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq/hkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n',
    ],
    ['a URL with a password', 'postgres://user:a-password@db/app'],
    ['a line of a key ring', 'one q83vASNFZ4mrze8BI0VniavN/wEjRWeJq83vASNFZ4k='],
    ['a secret in base64', 'q83vASNFZ4mrze8BI0VniavN/wEjRWeJq83vASNFZ4k='],
    ['one that begins with a slash', '/83vASNFZ4mrze8BI0VniavN/wEjRWeJq83vASNFZ4k'],
    ['a line of tokens', `ann view ${'a/'.repeat(20)}`],
    ['a secret of letters', 'abcdefghijklmnopqrstuvwxyz'],
  ])('%s in place of the path is not shown', (_what, secret) => {
    const refusal = told(secret)
    expect(refusal).toContain(`${env}: "***" is not accepted`)
    for (const word of secret.split(/\s+|-----/).filter((part) => part.length > 10))
      expect(refusal).not.toContain(word)
  })

  test.each([
    '/etc/fencepost/redis-cert/tls.crt',
    '/run/secrets/Redis2/..2026_11_26_16_33_33.1234567890/password',
    '/run/secrets/kubernetes/redispassword',
    './certificates/client.pem',
    '../client.pem',
    'certificates/client.pem',
    'C:/fencepost/client.pem',
    'client.pem',
  ])('the path %s is shown', (path) => {
    expect(told(path)).toContain(
      `${env}: "${path}" is not accepted (ENOENT: no such file or directory, open '${path}')`,
    )
  })
})
