/** The certificates of the configuration: how long each of their files can be used, and that each is given together with its own key. */

import { type ConfigError, missingSetting } from './errors.ts'
import type { FileContent } from './parse.ts'
import { belongTogether, type Lifetime, lifetimeOfAuthorities, lifetimeOfChain } from './pem-files.ts'
import { rowOf, SETTINGS, type Settings } from './settings.ts'

const LIFETIME_OF = {
  tlsCert: lifetimeOfChain,
  tlsClientCa: lifetimeOfAuthorities,
  redisCert: lifetimeOfChain,
  redisCa: lifetimeOfAuthorities,
} as const satisfies Partial<Record<keyof Settings, (file: FileContent) => Lifetime | undefined>>

type CertificateSetting = keyof typeof LIFETIME_OF
type CertificateFiles = { readonly [K in CertificateSetting]?: FileContent | undefined }

/** @property setting as a configuration file names it, such as `redis.certFile` */
export type ConfiguredCertificate = Lifetime & { readonly setting: string; readonly path: string }

export function certificatesIn(files: CertificateFiles): readonly ConfiguredCertificate[] {
  return (Object.keys(LIFETIME_OF) as CertificateSetting[]).flatMap((key) => {
    const file = files[key]
    const lifetime = file && LIFETIME_OF[key](file)
    if (file === undefined || lifetime === undefined) return []
    return [{ setting: rowOf(key).path, path: file.path, ...lifetime }]
  })
}

const PAIRS = [
  { cert: 'redisCert', key: 'redisKey' },
  { cert: 'tlsCert', key: 'tlsKey' },
] as const

export function keyPairs(settings: Partial<Settings>): readonly ConfigError[] {
  return [...incomplete(settings), ...unmatched(settings)]
}

/** A certificate without its key, or client verification without TLS. What is refused is present, and has an error of its own. */
function incomplete(settings: Partial<Settings>): readonly ConfigError[] {
  const missing = (key: keyof Settings, other: keyof Settings): ConfigError[] =>
    settings[other] !== undefined && !(key in settings)
      ? [missingSetting(rowOf(key), `while ${rowOf(other).env} is given`)]
      : []
  const forCa = missing('tlsCert', 'tlsClientCa')
  return PAIRS.flatMap(({ cert, key }) => [
    ...missing(key, cert),
    ...(cert === 'tlsCert' && forCa.length > 0 ? forCa : missing(cert, key)),
  ])
}

function unmatched(settings: Partial<Settings>): readonly ConfigError[] {
  return PAIRS.flatMap(({ cert, key }): ConfigError[] => {
    const [certificate, privateKey] = [settings[cert], settings[key]]
    if (certificate === undefined || privateKey === undefined) return []
    if (belongTogether(certificate, privateKey)) return []
    const [{ env: name }, { env }] = [SETTINGS[cert], SETTINGS[key]]
    const inequality = `key of the certificate (${certificate.path}) = private key (${privateKey.path}, ${env})`
    const reason = "they don't belong together; a certificate stands before its chain"
    return [{ kind: 'relation', name, inequality, reason }]
  })
}
