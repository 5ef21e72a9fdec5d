/** What the log says of the files of certificates, which may change while the sidecar runs. */
import { expect, test } from 'vitest'
import { openSecrets } from '../../src/app/secrets.ts'
import { loadConfig } from '../../src/config/load.ts'
import { makeAuthority, type Signed } from '../support/certificates.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

function logOf(first: Signed, clock: VirtualClock) {
  const files = new Map([
    ['/cert', first.cert()],
    ['/key', first.key()],
  ])
  const readFile = (path: string) => files.get(path) ?? ''
  const loaded = loadConfig(
    {
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000',
      FENCEPOST_TLS_CERT_FILE: '/cert',
      FENCEPOST_TLS_KEY_FILE: '/key',
    },
    readFile,
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
  const lines: { level: string; message: string; fields: object }[] = []
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, message, fields })
  const secrets = openSecrets(loaded.config, readFile, clock, { info: at('info'), error: at('error') })
  const change = async (to: Signed) => {
    files.set('/cert', to.cert())
    files.set('/key', to.key())
    await clock.advance(2_000)
  }
  return { lines, change, [Symbol.dispose]: () => secrets[Symbol.dispose]() }
}

const errors = ({ lines }: ReturnType<typeof logOf>) => lines.filter(({ level }) => level === 'error')

// Bug: an expired certificate took the place of a valid one, clients were refused, and the log said at `info` that it was in force.
test('a certificate that has ended is an error in the log when it replaces a valid one, and one that is renewed is none', async () => {
  using authority = makeAuthority()
  const [valid, ended] = [authority.sign('valid'), authority.sign('ended', { days: -1 })]
  using log = logOf(valid, new VirtualClock(Date.now()))
  expect(log.lines).toEqual([])
  await log.change(ended)
  expect(errors(log)).toEqual([
    {
      level: 'error',
      message: expect.stringMatching(/^the certificate of tls\.certFile has ended: /),
      fields: {
        setting: 'tls.certFile',
        path: '/cert',
        valid_from: expect.any(String),
        valid_until: expect.stringMatching(/^\d{4}-.*Z$/),
      },
    },
  ])
  await log.change(valid)
  expect(errors(log)).toHaveLength(1)
})

test('a start with a certificate that is not valid yet is an error in the log', () => {
  using authority = makeAuthority()
  using log = logOf(authority.sign('early'), new VirtualClock(Date.now() - 86_400_000))
  expect(errors(log).map(({ message }) => message)).toEqual([
    expect.stringMatching(/^the certificate of tls\.certFile is not valid yet: /),
  ])
})
