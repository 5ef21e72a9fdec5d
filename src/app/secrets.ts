/**
 * Files that may change while the sidecar runs: the token of the API, the certificates of the listeners.
 *
 * Owns that only a complete change takes effect: a certificate that does not belong to its key is refused and logged,
 * and the previous one stays.
 */

import { createSecureContext } from 'node:tls'
import type { ListenerName } from '../config/listeners.ts'
import type { Config } from '../config/load.ts'
import type { FileContent } from '../config/parse.ts'
import { SETTINGS } from '../config/settings.ts'
import type { Clock } from '../core/clock.ts'
import type { OperatorToken } from '../core/operator/operator-tokens.ts'
import type { Certificates, ListenerTls } from '../http/server/tls.ts'
import { watchFiles } from '../system/file-watch.ts'

export type Secrets = Disposable & {
  /** Tokens that callers of the API may send now; undefined if none is required. */
  readonly apiTokens: (() => readonly string[]) | undefined
  /** Who may call the operator listener now; undefined if it is off. */
  readonly operatorTokens: (() => readonly OperatorToken[]) | undefined
  /** Undefined if the listener speaks plain text. */
  tls(listener: ListenerName): ListenerTls | undefined
}

type FileSetting = 'apiToken' | 'tlsCert' | 'tlsKey' | 'tlsClientCa'

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
): Secrets {
  const { apiToken, operatorTokens, tlsCert, tlsKey, tlsClientCa } = config
  const listeners: (() => void)[] = []
  let tokens = apiToken === undefined ? [] : linesOf(apiToken.content)
  let certificates: Certificates | undefined
  if (tlsCert !== undefined && tlsKey !== undefined) {
    certificates = { cert: tlsCert.content, key: tlsKey.content, clientCa: tlsClientCa?.content }
    assertUsable(certificates)
  }

  function contentOf(key: FileSetting, { path }: FileContent): string {
    const read = SETTINGS[key].kind.parse(path, readFile)
    if (read.kind === 'refused') throw new Error(`${path}: ${read.reason ?? 'it can not be read'}`)
    return read.value.content
  }

  function reload(what: string, change: () => void): void {
    try {
      change()
      log.info({ what }, 'a file was changed, and what it holds is in force')
    } catch (err) {
      log.error({ what, err }, 'a file was changed to what can not be used; what was before stays in force')
    }
  }

  const watched: Disposable[] = []
  if (apiToken !== undefined)
    watched.push(
      watchFiles([apiToken.path], readFile, clock, () =>
        reload('the token of the API', () => {
          tokens = linesOf(contentOf('apiToken', apiToken))
        }),
      ),
    )
  let operators = operatorTokens?.tokens ?? []
  if (operatorTokens !== undefined)
    watched.push(
      watchFiles([operatorTokens.path], readFile, clock, () =>
        reload('the tokens of operators', () => {
          const read = SETTINGS.operatorTokens.kind.parse(operatorTokens.path, readFile)
          if (read.kind === 'refused')
            throw new Error(`${operatorTokens.path}: ${read.reason ?? 'it can not be read'}`)
          operators = read.value.tokens
        }),
      ),
    )
  if (tlsCert !== undefined && tlsKey !== undefined)
    watched.push(
      watchFiles(
        [tlsCert, tlsKey, ...(tlsClientCa === undefined ? [] : [tlsClientCa])].map(({ path }) => path),
        readFile,
        clock,
        () =>
          reload('the certificates of the listeners', () => {
            const next: Certificates = {
              cert: contentOf('tlsCert', tlsCert),
              key: contentOf('tlsKey', tlsKey),
              clientCa: tlsClientCa === undefined ? undefined : contentOf('tlsClientCa', tlsClientCa),
            }
            assertUsable(next)
            certificates = next
            for (const tell of listeners) tell()
          }),
      ),
    )

  return {
    apiTokens: apiToken === undefined ? undefined : () => tokens,
    operatorTokens: operatorTokens === undefined ? undefined : () => operators,
    tls: (listener) => {
      const first = certificates
      if (first === undefined || !config.tlsListeners.includes(listener)) return undefined
      return { current: () => certificates ?? first, onChange: (tell) => void listeners.push(tell) }
    },
    [Symbol.dispose]: () => {
      for (const one of watched) one[Symbol.dispose]()
    },
  }
}

function linesOf(content: string): readonly string[] {
  return content
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
}

function assertUsable({ cert, key, clientCa }: Certificates): void {
  createSecureContext({ cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) })
}
