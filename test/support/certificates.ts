/** Certificates for one test: an authority, and those that it signs. Made by openssl, in a folder that is removed. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { requireProgram } from './programs.ts'

export type Signed = { readonly certFile: string; readonly keyFile: string; cert(): string; key(): string }

export type Authority = Disposable & {
  readonly folder: string
  readonly caFile: string
  ca(): string
  /** A certificate for localhost and 127.0.0.1 with this common name. */
  sign(name: string): Signed
}

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

export function makeAuthority(name = 'fencepost test authority'): Authority {
  const openssl = requireProgram('openssl')
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-tls-'))
  const at = (file: string): string => join(folder, file)
  const run = (...args: readonly string[]): void => {
    execFileSync(openssl, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  }
  run(
    'req',
    '-x509',
    ...KEY,
    '-subj',
    `/CN=${name}`,
    '-days',
    '2',
    '-keyout',
    at('ca.key'),
    '-out',
    at('ca.pem'),
  )
  writeFileSync(at('names.ext'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n')
  return {
    folder,
    caFile: at('ca.pem'),
    ca: () => readFileSync(at('ca.pem'), 'utf8'),
    sign: (of) => {
      const [certFile, keyFile, request] = [at(`${of}.pem`), at(`${of}.key`), at(`${of}.csr`)]
      run('req', '-new', ...KEY, '-subj', `/CN=${of}`, '-keyout', keyFile, '-out', request)
      const by = ['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial']
      run('x509', '-req', '-in', request, ...by, '-days', '2', '-extfile', at('names.ext'), '-out', certFile)
      return {
        certFile,
        keyFile,
        cert: () => readFileSync(certFile, 'utf8'),
        key: () => readFileSync(keyFile, 'utf8'),
      }
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}
