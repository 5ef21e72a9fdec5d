/**
 * Files that may change while the sidecar runs: the tokens of API and operators, the certificates of the listeners,
 * certificates and password for the nodes, the key ring, and the secrets of reservation ids.
 *
 * Owns that only a complete change takes effect: a certificate that does not belong to its key is refused and logged,
 * and the previous one stays. One that has ended takes effect, because the next start would take it, too; that it is no longer valid is an
 * error in the log, at the start and at each change.
 */

import { createSecureContext } from 'node:tls'
import { certificatesIn } from '../config/certificates.ts'
import type { ListenerName } from '../config/lists.ts'
import type { Config } from '../config/load.ts'
import type { FileContent } from '../config/parse.ts'
import { rowOf } from '../config/settings.ts'
import type { Clock } from '../core/clock.ts'
import type { Certificates, ListenerTls } from '../http/server/listening.ts'
import { createNodeTls, type NodeTls } from '../redis/connector.ts'
import { watchFiles } from '../system/file-watch.ts'

export type Secrets = ReturnType<typeof openSecrets>

type FileSetting =
  | 'apiToken'
  | 'keyRing'
  | 'operatorTokens'
  | 'redisPassword'
  | 'redisCa'
  | 'redisCert'
  | 'redisKey'
  | 'reservationSecret'
  | 'tlsCert'
  | 'tlsKey'
  | 'tlsClientCa'

type SecretsLog = {
  info(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** @throws if certificate and key do not belong together */
export function openSecrets(
  config: Config,
  readFile: (path: string) => string,
  clock: Clock,
  log: SecretsLog,
) {
  const watched: Disposable[] = []
  let inForce = config

  /** What these files hold now, in the form in which it is used; undefined if the configuration names none for it. */
  function kept<T>(
    what: string,
    files: readonly FileSetting[],
    formOf: (of: Config) => T | undefined,
    report = () => {},
  ): (() => T) | undefined {
    const first = formOf(config)
    if (first === undefined) return undefined
    let current = first
    const given = files.filter((name) => config[name] !== undefined)
    const reload = () => {
      try {
        const changed = { ...inForce, ...read(given) }
        current = formOf(changed) ?? current
        inForce = changed
        certificates = certificatesIn(inUse())
        report()
        log.info({ what }, 'a file was changed, and what it holds is in force')
        tellInvalid(given)
      } catch (err) {
        log.error({ what, err }, 'a file was changed to what can not be used; what was before stays in force')
      }
    }
    const paths = given.map((name) => config[name]?.path ?? '')
    watched.push(watchFiles(paths, readFile, clock, reload))
    return () => current
  }

  /** Of certificates in force that peers refuse now. */
  function tellInvalid(names: readonly FileSetting[]): void {
    const settings = new Set(names.map((name) => rowOf(name).path))
    const wallMs = clock.wallMs()
    for (const { setting, path, fromMs, untilMs } of certificates) {
      if (!settings.has(setting) || (fromMs <= wallMs && wallMs <= untilMs)) continue
      const why = untilMs < wallMs ? 'has ended' : 'is not valid yet'
      const [from, until] = [new Date(fromMs).toISOString(), new Date(untilMs).toISOString()]
      const message = `the certificate of ${setting} ${why}: each new TLS connection that needs it fails. Put a valid one into its file; it is read within a second.`
      log.error({ setting, path, valid_from: from, valid_until: until }, message)
    }
  }

  function read(names: readonly FileSetting[]): Partial<Config> {
    const entries = names.map((name) => {
      const path = config[name]?.path ?? ''
      const parsed = rowOf(name).kind.parse(path, readFile)
      if (parsed.kind === 'refused') throw new Error(`${path}: ${parsed.reason ?? 'it can not be read'}`)
      return [name, parsed.value] as const
    })
    return Object.fromEntries(entries)
  }

  const listeners: (() => void)[] = []
  const ofListeners = kept(
    'the certificates of the listeners',
    ['tlsCert', 'tlsKey', 'tlsClientCa'],
    certificatesOf,
    () => {
      for (const report of listeners) report()
    },
  )
  const nodeTls = kept('the certificates for the nodes', ['redisCa', 'redisCert', 'redisKey'], nodeTlsOf)
  // Files that nothing is made of are not read again either.
  const inUse = () =>
    nodeTls === undefined ? { ...inForce, redisCa: undefined, redisCert: undefined } : inForce
  let certificates = certificatesIn(inUse())
  tellInvalid(['tlsCert', 'tlsClientCa', 'redisCert', 'redisCa'])
  // Each is undefined where the configuration has no file for it.
  return {
    apiTokens: kept('the token of the API', ['apiToken'], (of) => linesOf(of.apiToken)),
    operatorTokens: kept('the tokens of operators', ['operatorTokens'], (of) => of.operatorTokens?.tokens),
    nodeTls,
    nodePassword: kept('the password for the nodes', ['redisPassword'], (of) => of.redisPassword?.content),
    keyRing: kept('the key ring', ['keyRing'], (of) => of.keyRing?.ring),
    reservationSecrets: kept('the secret of reservations', ['reservationSecret'], (of) =>
      linesOf(of.reservationSecret)?.map((line) => Buffer.from(line)),
    ),
    /** Those that are in force and in use. */
    certificates: () => certificates,
    /** Nothing if the listener speaks plain text. */
    tls: (listener: ListenerName): { readonly tls?: ListenerTls } => {
      if (ofListeners === undefined || !config.tlsListeners.includes(listener)) return {}
      return { tls: { current: ofListeners, onChange: (report) => void listeners.push(report) } }
    },
    [Symbol.dispose]: () => {
      for (const one of watched) one[Symbol.dispose]()
    },
  }
}

function linesOf(file: FileContent | undefined): readonly string[] | undefined {
  return file?.content
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
}

/** @throws if OpenSSL can't use them */
function certificatesOf({ tlsCert, tlsKey, tlsClientCa }: Config): Certificates | undefined {
  if (tlsCert === undefined || tlsKey === undefined) return undefined
  const [cert, key, clientCa] = [tlsCert.content, tlsKey.content, tlsClientCa?.content]
  createSecureContext({ cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) })
  return { cert, key, clientCa }
}

/**
 * Undefined where no node speaks TLS: the system's authorities cost memory.
 *
 * @throws if OpenSSL can't use certificate and key
 */
export function nodeTlsOf({
  redisNodes,
  redisCa,
  redisCert,
  redisKey,
}: Pick<Config, 'redisNodes' | 'redisCa' | 'redisCert' | 'redisKey'>): NodeTls | undefined {
  if (redisNodes.kind === 'embedded') return undefined
  if (!redisNodes.groups.some(({ nodes }) => nodes.some(({ tls }) => tls))) return undefined
  return createNodeTls({ ca: redisCa?.content, cert: redisCert?.content, key: redisKey?.content })
}
