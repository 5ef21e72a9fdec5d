/**
 * How a route says whose a request is: its forms, and what they need of other settings.
 *
 * Owns that an unverified claim is accepted only where `trust.peers` names who has verified it, and that keys which would verify
 * tokens come over TLS or from a file: whoever can change them can be any client.
 */

import { errorText } from '../core/fault.ts'
import { parseJsonWebKeys } from '../core/formats/json-web-keys.ts'
import { type PrincipalSource, policiesOf, type Route, type VerifiedJwt } from '../core/routes/route.ts'
import { isLoopback } from './addresses.ts'
import type { ConfigError } from './errors.ts'
import { choice, duration, headerName, label, patterned } from './parse.ts'
import { SETTINGS, type Settings } from './settings.ts'
import { isMapping, listOf, mapped, mapping, oneOf, refusedNode, type Shape, scalar } from './shape.ts'
import { type ReadFile, refused, type ValueKind, value } from './value.ts'

/** Signatures with a public key (RFC 7518, RFC 8037). With a shared secret whoever verifies could sign. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const

const DEFAULT_CLAIMS: readonly string[] = ['iss', 'sub']
/** Clocks of machines that are kept by NTP. */
const DEFAULT_TOLERANCE_MS = 5_000

const claimName = scalar(label())
const text = scalar(patterned('visible ASCII without spaces', /^[\x21-\x7e]{1,1024}$/))

function keysAddress(): ValueKind<string> {
  return {
    accepts: 'https://host/path without a password; http:// on loopback only',
    parse: (given) => {
      const url = URL.parse(given)
      if (url === null || !/^https?:$/.test(url.protocol)) return refused('it is no address')
      if (url.username !== '' || url.password !== '') return refused('it has a user or a password')
      if (url.protocol === 'http:' && !isLoopback(url.hostname))
        return refused('who can change the keys on their way can be any client')
      return value(given)
    },
    print: String,
    mask: (given) => given.replace(/\/\/[^/@]*@/, '//***@'),
    yaml: 'text',
    schema: { type: 'string', pattern: '^https?://.+' },
  }
}

/** `any`, one audience, or several. */
const audience: Shape<readonly string[] | 'any'> = eitherOf(
  mapped(text, (one) => (one === 'any' ? ('any' as const) : [one])),
  listOf(text, { max: 20, min: 1 }),
  (node) => Array.isArray(node),
)

const verified = mapping(
  {
    claims: listOf(claimName, { max: 10, min: 1 }),
    issuer: text,
    audience,
    jwks: scalar(keysAddress()),
    jwksFile: scalar(patterned('an absolute path', /^\/[\x20-\x7e]{1,1023}$/)),
    algorithms: listOf(scalar(choice(...ALGORITHMS)), { max: ALGORITHMS.length, min: 1 }),
    clockTolerance: scalar(duration({ minMs: 0, maxMs: 300_000 })),
  },
  ['issuer', 'audience'],
)

function needing(name: string) {
  return { type: 'object', properties: { [name]: {} }, required: [name] }
}

const verifiedJwt: Shape<VerifiedJwt> = {
  accepts: verified.accepts,
  schema: { ...verified.schema, anyOf: [needing('jwks'), needing('jwksFile')] },
  read: (node, at, report) => {
    const given = verified.read(node, at, report)
    if (given === undefined) return undefined
    const { issuer, audience: forWhom, jwks: url, jwksFile: file } = given
    if (isMapping(node) && !('jwks' in node) && !('jwksFile' in node)) {
      const accepts = 'the address of the issuer’s keys, or with jwksFile the path of a file with them'
      report({ kind: 'missing', name: `${at}.jwks`, accepts })
    }
    // A refused member has an error of its own.
    if (issuer === undefined || forWhom === undefined) return undefined
    return {
      kind: 'verified_jwt',
      claims: [...new Set(given.claims ?? DEFAULT_CLAIMS)].sort(),
      issuer,
      audience: forWhom,
      algorithms: given.algorithms ?? ALGORITHMS,
      toleranceMs: given.clockTolerance ?? DEFAULT_TOLERANCE_MS,
      jwks: { ...(url === undefined ? {} : { url }), ...(file === undefined ? {} : { file }) },
    }
  },
}

const jwt: Shape<PrincipalSource> = eitherOf(
  mapped(claimName, (claim): PrincipalSource => ({ kind: 'jwt', claim })),
  verifiedJwt,
  isMapping,
)

export const PRINCIPAL: Shape<PrincipalSource> = mapped(
  oneOf(['authorization'], { header: scalar(headerName()), jwt }),
  (from): PrincipalSource => {
    if (from === 'authorization') return { kind: 'authorization' }
    return from.kind === 'header' ? { kind: 'header', name: from.value } : from.value
  },
)

/** @param isSecond whether a node is meant to have the second form */
function eitherOf<T, U>(
  first: Shape<T>,
  second: Shape<U>,
  isSecond: (node: unknown) => boolean,
): Shape<T | U> {
  return {
    accepts: `${first.accepts}, or ${second.accepts}`,
    read: (node, at, report) =>
      isSecond(node) ? second.read(node, at, report) : first.read(node, at, report),
    schema: { anyOf: [first.schema, second.schema] },
  }
}

/** What the principals of the routes need besides: a trusted peer that has verified, a file with keys. */
export function checkPrincipals(
  routes: readonly Route[],
  settings: Partial<Settings>,
  readFile: ReadFile,
): readonly ConfigError[] {
  return routes.flatMap(policiesOf).flatMap((route) => {
    const at = `route ${route.name}: principal`
    const { principal } = route
    if (principal.kind === 'jwt') return unverified(principal.claim, at, settings)
    if (principal.kind !== 'verified_jwt' || principal.jwks.file === undefined) return []
    const reason = faultOfFile(principal.jwks.file, readFile)
    return reason === undefined
      ? []
      : [
          refusedNode(
            `${at}.jwt.jwksFile`,
            principal.jwks.file,
            'the path of a readable JSON Web Key Set (RFC 7517)',
            reason,
          ),
        ]
  })
}

/** Listeners for gateways and for the application have trusted callers; to the proxy anyone may send a token of their own making. */
function unverified(claim: string, at: string, settings: Partial<Settings>): readonly ConfigError[] {
  const { trustedPeers, trustScopeHeaders, proxyListen } = settings
  const accepts = `{jwt: {issuer: …, audience: …, jwks: …}}, which verifies tokens here; or {jwt: ${claim}} with the addresses of the peers that have verified them in ${SETTINGS.trustedPeers.env}, and ${SETTINGS.trustScopeHeaders.env}=on`
  const fault = (reason: string): readonly ConfigError[] => [
    refusedNode(at, `{jwt: ${claim}}`, accepts, reason),
  ]
  if (trustScopeHeaders === false)
    return fault(`nothing verifies it, and ${SETTINGS.trustScopeHeaders.env} is off`)
  const open = proxyListen !== undefined && proxyListen.kind !== 'off' && trustedPeers?.kind === 'any'
  return open
    ? fault(
        `nothing verifies it, and ${SETTINGS.trustedPeers.env} is any: whoever reaches the proxy could read the answers of others`,
      )
    : []
}

function faultOfFile(path: string, readFile: ReadFile): string | undefined {
  let content: string
  try {
    content = readFile(path)
  } catch (cause) {
    return errorText(cause)
  }
  const parsed = parseJsonWebKeys(content)
  return parsed.kind === 'keys' ? undefined : `it ${parsed.reason}`
}

/** In the notation of the YAML file. */
export function printedPrincipal(principal: PrincipalSource, printMs: (ms: number) => string): unknown {
  switch (principal.kind) {
    case 'authorization':
      return 'authorization'
    case 'header':
      return { header: principal.name }
    case 'jwt':
      return { jwt: principal.claim }
    case 'verified_jwt': {
      const { claims, issuer, audience: forWhom, jwks, algorithms, toleranceMs } = principal
      return {
        jwt: {
          claims,
          issuer,
          audience: forWhom,
          ...(jwks.url === undefined ? {} : { jwks: jwks.url }),
          ...(jwks.file === undefined ? {} : { jwksFile: jwks.file }),
          algorithms,
          clockTolerance: printMs(toleranceMs),
        },
      }
    }
  }
}
