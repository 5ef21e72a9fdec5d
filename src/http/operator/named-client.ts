/**
 * Whose request it was, from what support has: the hash, the client's Authorization line, or what names the client.
 *
 * Owns the request that stands for a named client: the header, or the token with the claim, in which its route looks for
 * the name. The principal is made of it by the code of the proxy.
 */

import type { HeaderList } from '../../core/header-list.ts'
import { type PrincipalRules, principalOfRequest } from '../../core/request/principal.ts'
import type { PrincipalSource } from '../../core/routes/route.ts'
import type { Problem } from '../message/problems.ts'
import { tokenProblem } from '../request/identify.ts'

export type Whose = {
  readonly principal?: string
  readonly authorization?: string
  readonly client?: string
}

/** The principal; nothing given is an anonymous request. */
export async function principalGiven(
  { principal, authorization, client }: Whose,
  source: PrincipalSource,
  rules: PrincipalRules,
): Promise<string | Problem> {
  if (client !== undefined && (principal ?? authorization) !== undefined)
    return invalid('"client" says whose request it was, and so does another member. Leave one of them out.')
  if (principal !== undefined) return principal
  const headers = client === undefined ? authorized(authorization) : headersNaming(client, source, rules)
  if ('code' in headers) return headers
  const whose = await principalOfRequest(source, headers, rules)
  return whose.kind === 'principal' ? whose.principal : tokenProblem(whose)
}

function authorized(line: string | undefined): HeaderList {
  return line === undefined ? [] : [['Authorization', line]]
}

function headersNaming(client: string, source: PrincipalSource, rules: PrincipalRules): HeaderList | Problem {
  switch (source.kind) {
    case 'header':
      return [[source.name, client]]
    case 'authorization':
      return rules.trusted ? [[rules.clientHeader, client]] : BY_AUTHORIZATION
    case 'jwt':
      return rules.trusted ? tokenOf(source.claim, client) : BY_AUTHORIZATION
    case 'verified_jwt': {
      const [claim, ...more] = source.claims
      if (claim === undefined || more.length > 0)
        return invalid(
          `The route identifies clients by several claims (${source.claims.join(', ')}). Give "authorization" or "principal".`,
        )
      return tokenOf(claim, client)
    }
  }
}

/** In the form of a signed token. Nobody verifies it here, and it is sent nowhere: it only says whose record is looked for. */
function tokenOf(claim: string, client: string): HeaderList {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return [['Authorization', `Bearer ${part({ alg: 'none' })}.${part({ [claim]: client })}.none`]]
}

function invalid(detail: string): Problem {
  return { code: 'request-invalid', detail }
}

const BY_AUTHORIZATION = invalid(
  'The route identifies clients by their Authorization line. Give "authorization", or "principal", the hash of it.',
)
