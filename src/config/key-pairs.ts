/** Certificates and their private keys: given together, and belonging together. */

import type { ConfigError } from './errors.ts'
import { belongTogether } from './pem-files.ts'
import { SETTINGS, type Settings } from './settings.ts'

const PAIRS = [
  { cert: 'redisCert', key: 'redisKey' },
  { cert: 'tlsCert', key: 'tlsKey' },
] as const

export function keyPairs(settings: Partial<Settings>): readonly ConfigError[] {
  return [...incomplete(settings), ...unmatched(settings)]
}

/** A certificate without its key, or client verification without TLS. What is refused is present, and has an error of its own. */
function incomplete(settings: Partial<Settings>): readonly ConfigError[] {
  const missing = (
    key: keyof Settings & keyof typeof SETTINGS,
    other: keyof typeof SETTINGS,
  ): ConfigError[] =>
    settings[other] !== undefined && !(key in settings)
      ? [
          {
            kind: 'missing',
            name: SETTINGS[key].env,
            accepts: SETTINGS[key].kind.accepts,
            reason: `while ${SETTINGS[other].env} is given`,
          },
        ]
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
