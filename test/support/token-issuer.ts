/** An issuer of bearer tokens: real keys, a real server for its key set, and every way of making a token that must not count. */
import { createServer } from 'node:http'
import { type CryptoKey, exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { parseJsonWebKeys } from '../../src/core/formats/json-web-keys.ts'
import type { VerifiedJwt } from '../../src/core/routes/route.ts'
import { listening } from './listening.ts'

export const ISSUER = 'https://id.test/'
export const AUDIENCE = 'payments'

export type Key = {
  readonly kid: string
  readonly alg: string
  readonly pair: Awaited<ReturnType<typeof generateKeyPair>>
}

export async function makeKey(kid: string, alg = 'ES256'): Promise<Key> {
  return { kid, alg, pair: await generateKeyPair(alg, { extractable: true }) }
}

export async function keySetOf(...keys: readonly Key[]): Promise<string> {
  const published = keys.map(async ({ kid, alg, pair }) => ({
    ...(await exportJWK(pair.publicKey)),
    kid,
    alg,
    use: 'sig',
  }))
  return JSON.stringify({ keys: await Promise.all(published) })
}

export async function parsedKeys(...keys: readonly Key[]) {
  const parsed = parseJsonWebKeys(await keySetOf(...keys))
  if (parsed.kind === 'refused') throw new Error(parsed.reason)
  return parsed.keys
}

/** An undefined claim is left out. */
type Claims = { readonly [name in keyof JWTPayload]?: JWTPayload[name] | undefined }

/** Valid for an hour by the clock of this machine, unless the claims say otherwise. */
export async function sign(
  key: Key,
  claims: Claims = {},
  header: { kid?: string } = { kid: key.kid },
): Promise<string> {
  const nowS = Math.floor(Date.now() / 1_000)
  return new SignJWT({
    iss: ISSUER,
    aud: AUDIENCE,
    sub: 'alice',
    iat: nowS,
    exp: nowS + 3_600,
    ...claims,
  } as JWTPayload)
    .setProtectedHeader({ alg: key.alg, ...header })
    .sign(key.pair.privateKey)
}

/** The claims of a token, without any signature or with one of another making. */
export function unsigned(token: string, header: object, signature = ''): string {
  const [, payload = ''] = token.split('.')
  return `${Buffer.from(JSON.stringify(header)).toString('base64url')}.${payload}.${signature}`
}

/** The public key, which everybody knows, as if it were a shared secret. */
export async function signWithPublicKey(key: Key, token: string): Promise<string> {
  const [, payload = ''] = token.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as JWTPayload
  const secret = new TextEncoder().encode(await exportSPKI(key.pair.publicKey as CryptoKey))
  return new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: key.kid }).sign(secret)
}

export type Issuer = AsyncDisposable & {
  readonly url: string
  /** How often its keys were fetched. */
  readonly fetched: () => number
  /** What it answers from now on; undefined: 503. */
  publish(keySet: string | undefined): void
}

export async function startIssuer(keySet: string | undefined): Promise<Issuer> {
  let published = keySet
  let fetched = 0
  const server = createServer((_request, response) => {
    fetched += 1
    response.statusCode = published === undefined ? 503 : 200
    response.end(published)
  })
  const at = await listening(server)
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return {
    url: `http://127.0.0.1:${port}/jwks.json`,
    fetched: () => fetched,
    publish: (next) => {
      published = next
    },
    [Symbol.asyncDispose]: at[Symbol.asyncDispose],
  }
}

export function verifiedBy(jwks: VerifiedJwt['jwks'], differs: Partial<VerifiedJwt> = {}): VerifiedJwt {
  return {
    kind: 'verified_jwt',
    claims: ['iss', 'sub'],
    issuer: ISSUER,
    audience: [AUDIENCE],
    algorithms: ['ES256', 'RS256'],
    toleranceMs: 5_000,
    jwks,
    ...differs,
  }
}
