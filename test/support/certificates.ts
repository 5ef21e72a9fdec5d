/** Certificates for one test: an authority, and those that it signs. Made by openssl, in a folder that is removed. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { requireProgram } from './programs.ts'

export type Signed = { readonly certFile: string; readonly keyFile: string; cert(): string; key(): string }

export type SignOptions = {
  /** Default: `DNS:localhost,IP:127.0.0.1`. */
  readonly names?: string
  /** Below zero: it has ended. */
  readonly days?: number
  /** Extended key usage, such as `serverAuth`. Default: none, which suits clients and servers. */
  readonly usage?: string
}

export type Authority = Disposable & {
  readonly folder: string
  readonly caFile: string
  ca(): string
  /** A certificate for localhost and 127.0.0.1 with this common name. */
  sign(name: string, options?: SignOptions): Signed
  /** Signed by this one, in the same folder. Its certificate is no root: whoever shows one of it shows both. */
  intermediate(name: string): Authority
}

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

export function makeAuthority(name = 'fencepost test authority'): Authority {
  const openssl = requireProgram('openssl')
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-tls-'))
  const run = (...args: readonly string[]): void => {
    execFileSync(openssl, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  }
  const [cert, key] = [join(folder, 'ca.pem'), join(folder, 'ca.key')]
  run('req', '-x509', ...KEY, '-subj', `/CN=${name}`, '-days', '2', '-keyout', key, '-out', cert)
  return authorityIn(folder, 'ca', run)
}

function authorityIn(folder: string, own: string, run: (...args: readonly string[]) => void): Authority {
  const at = (file: string): string => join(folder, file)
  const [caFile, caKeyFile] = [at(`${own}.pem`), at(`${own}.key`)]
  const issue = (of: string, extensions: readonly string[], days: number): Signed => {
    const [certFile, keyFile, request] = [at(`${of}.pem`), at(`${of}.key`), at(`${of}.csr`)]
    writeFileSync(at(`${of}.ext`), `${extensions.join('\n')}\n`)
    run('req', '-new', ...KEY, '-subj', `/CN=${of}`, '-keyout', keyFile, '-out', request)
    const by = ['-CA', caFile, '-CAkey', caKeyFile, '-CAcreateserial', '-days', String(days)]
    run('x509', '-req', '-in', request, ...by, '-extfile', at(`${of}.ext`), '-out', certFile)
    return {
      certFile,
      keyFile,
      cert: () => readFileSync(certFile, 'utf8'),
      key: () => readFileSync(keyFile, 'utf8'),
    }
  }
  return {
    folder,
    caFile,
    ca: () => readFileSync(caFile, 'utf8'),
    sign: (of, { names = 'DNS:localhost,IP:127.0.0.1', days = 2, usage } = {}) =>
      issue(
        of,
        [`subjectAltName=${names}`, ...(usage === undefined ? [] : [`extendedKeyUsage=${usage}`])],
        days,
      ),
    intermediate: (of) => {
      issue(of, ['basicConstraints=critical,CA:TRUE'], 2)
      return authorityIn(folder, of, run)
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** A certificate and its key, for tests that read no file. */
export function oneCertificate(): { readonly cert: string; readonly key: string } {
  using authority = makeAuthority()
  const signed = authority.sign('one')
  return { cert: signed.cert(), key: signed.key() }
}
