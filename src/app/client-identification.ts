/**
 * Who a client is, as configured, for all listeners together: the scope of a request, the verification of bearer tokens, and the
 * warning about tokens that expire before their records.
 *
 * Owns one key set for each pair of address and file that a route names: listeners and routes share what was fetched.
 */

import type { Config } from '../config/load.ts'
import type { Clock } from '../core/clock.ts'
import { parseJsonWebKeys } from '../core/formats/json-web-keys.ts'
import { printDuration } from '../core/quantity.ts'
import { noticePassingCredentials } from '../core/request/passing-credentials.ts'
import { policiesOf, type VerifiedJwt } from '../core/routes/route.ts'
import type { ScopeRules } from '../http/request/identify.ts'
import type { createKeySet, fetchKeys, KeySet } from '../jwt/key-set.ts'
import { watchFiles } from '../system/file-watch.ts'
import { scopeRules } from './identity-rules.ts'

type Log = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

export type ClientIdentification = Disposable & { readonly scope: ScopeRules }

/** Loads jose only if a route verifies tokens. */
export async function openClientIdentification(
  config: Config,
  readFile: (path: string) => string,
  clock: Clock,
  log: Log,
): Promise<ClientIdentification> {
  const verified = config.routes
    .flatMap(policiesOf)
    .flatMap(({ principal }) => (principal.kind === 'verified_jwt' ? [principal] : []))
  const onIdentified = noticePassingCredentials(clock, (passing) => {
    const { route } = passing
    if (passing.kind === 'signed')
      log.warn(
        { route, scheme: passing.scheme },
        'clients sign each request anew, so the Authorization of a retry is that of another client, and its request is executed again (docs/guide/clients.md)',
      )
    else
      log.warn(
        {
          route,
          expires_in: inSeconds(Math.max(0, passing.expiresInMs)),
          retention: printDuration(passing.retentionMs),
        },
        'a bearer token expires before the records of its route: a client that renews it between two tries is another client, and its request is executed again (docs/guide/clients.md)',
      )
  })
  const scope = { ...scopeRules(config), onIdentified }
  if (verified.length === 0) return { scope, [Symbol.dispose]: () => {} }

  const [jwt, { createTokenVerifier }] = await Promise.all([
    import('../jwt/key-set.ts'),
    import('../jwt/token-verifier.ts'),
  ])
  const watched: Disposable[] = []
  const keySets = new Map<string, KeySet>()
  for (const { jwks } of verified) {
    const name = nameOf(jwks)
    if (keySets.has(name)) continue
    const keySet = openKeySet(jwks, { readFile, clock, log, watched, ...jwt })
    keySets.set(name, keySet)
    // Ahead of the first request. Without an answer the sidecar starts all the same.
    void keySet.current()
  }
  const keySetOf = ({ jwks }: VerifiedJwt) => keySets.get(nameOf(jwks))!
  return {
    scope: { ...scope, verifyToken: createTokenVerifier(keySetOf, clock) },
    [Symbol.dispose]: () => {
      for (const one of watched) one[Symbol.dispose]()
    },
  }
}

type KeySetParts = {
  readonly readFile: (path: string) => string
  readonly clock: Clock
  readonly log: Log
  readonly watched: Disposable[]
  readonly createKeySet: typeof createKeySet
  readonly fetchKeys: typeof fetchKeys
}

function openKeySet(
  { url, file }: VerifiedJwt['jwks'],
  { readFile, clock, log, watched, createKeySet, fetchKeys }: KeySetParts,
): KeySet {
  const read = () => {
    const parsed = parseJsonWebKeys(file === undefined ? '' : readFile(file))
    if (parsed.kind === 'refused') throw new Error(`it ${parsed.reason}`)
    return parsed.keys
  }
  const keySet = createKeySet({
    ...(url === undefined ? {} : { url }),
    // The configuration has read it a moment ago.
    ...(file === undefined ? {} : { initial: read() }),
    clock,
    fetchKeys,
    onChange: (failure) =>
      failure === undefined
        ? log.info({ jwks: url }, 'the keys of the issuer of bearer tokens are fetched')
        : log.warn({ jwks: url, failure }, 'the keys of the issuer of bearer tokens can not be fetched'),
  })
  if (file !== undefined)
    watched.push(
      watchFiles([file], readFile, clock, () => {
        try {
          keySet.replace(read())
          log.info({ file }, 'a file with keys was changed, and what it holds is in force')
        } catch (err) {
          log.warn(
            { file, err },
            'a file with keys was changed to what can not be used; the former keys stay in force',
          )
        }
      }),
    )
  return keySet
}

function nameOf({ url, file }: VerifiedJwt['jwks']): string {
  return JSON.stringify([url, file])
}

function inSeconds(ms: number): string {
  return printDuration(Math.round(ms / 1_000) * 1_000)
}
