/**
 * The request that a gateway's check is about: the one table of how each gateway describes it.
 *
 *   /v1/gateway/ext-authz/…     Envoy ext_authz over HTTP: the request itself, its path behind the prefix
 *   /v1/gateway/auth-request    nginx: X-Original-Method, X-Original-URI, X-Original-Host; never a body
 *   /v1/gateway/forward-auth    Caddy, Traefik: X-Forwarded-Method, X-Forwarded-Uri, X-Forwarded-Host
 *   /v1/gateway/check           HAProxy, Kong, by our Lua: Fencepost-Original-Method, -Uri, -Host, beside all that the client sent
 *
 * Owns reading these, and what is known about the body and the host. Part of a body never counts as a body, nor the host of the check as that
 * of the request. Where method and target are missing, the request is not from a gateway, and is refused.
 *
 * Source: Envoy, ext_authz.proto (path prefix, `x-envoy-auth-partial-body`); nginx, ngx_http_auth_request_module; Traefik,
 * ForwardAuth; Caddy, forward_auth.
 */

import { linesOf } from '../../core/header-list.ts'
import type { Dialect, Original } from '../check/check.ts'
import { type AdmittedRequest, forHost } from '../request/admission.ts'

/** The gateway's own id of a request: a second check with it is a retry of the check, not a duplicate of the request. */
const HOP_ID_HEADER = 'fencepost-hop-id'

const PREFIX = '/v1/gateway/'
const EXT_AUTHZ = `${PREFIX}ext-authz`
const HOP_IDS: Record<Dialect, string> = {
  // Envoy can't add a varying header to the check, but sends its own request id.
  'ext-authz': 'x-request-id',
  'auth-request': HOP_ID_HEADER,
  'forward-auth': HOP_ID_HEADER,
}

type OriginalRequest =
  | { readonly kind: 'original'; readonly original: Original }
  | { readonly kind: 'not_a_check' }
  | { readonly kind: 'malformed'; readonly detail: string }

/** @param bodyComes the check has bytes of a body */
export function originalOf(check: AdmittedRequest, bodyComes: boolean): OriginalRequest {
  const { path } = check
  if (path === EXT_AUTHZ || path.startsWith(`${EXT_AUTHZ}/`))
    return original('ext-authz', extAuthz(check), bodyComes)
  if (path === `${PREFIX}auth-request`) return described('auth-request', check, 'x-original-', false)
  if (path === `${PREFIX}forward-auth`) return described('forward-auth', check, 'x-forwarded-', bodyComes)
  if (path === `${PREFIX}check`) return described('forward-auth', check, 'fencepost-original-', bodyComes)
  return { kind: 'not_a_check' }
}

function extAuthz(check: AdmittedRequest): AdmittedRequest {
  const target = withSlash(check.target.slice(EXT_AUTHZ.length))
  return withTarget(check, check.method, target)
}

function described(
  dialect: Dialect,
  check: AdmittedRequest,
  prefix: string,
  bodyComes: boolean,
): OriginalRequest {
  const { headers } = check
  const one = (name: string): string | undefined => {
    const lines = linesOf(headers, prefix + name)
    return lines.length === 1 ? lines[0]?.trim() : undefined
  }
  const method = one('method')
  const target = one('uri')
  const host = one('host')
  if (method === undefined || !/^[A-Z]+$/.test(method)) return malformed(`${prefix}method`)
  if (target === undefined || !/^\/[\x21-\x7e\x80-\xff]*$/.test(target) || target.includes('#'))
    return malformed(`${prefix}uri`)
  const describing = new Set([`${prefix}method`, `${prefix}uri`, `${prefix}host`])
  const kept = headers.filter(([name]) => !describing.has(name.toLowerCase()))
  return original(dialect, withTarget({ ...check, ...forHost(kept, host) }, method, target), bodyComes)
}

function malformed(name: string): OriginalRequest {
  const detail = `The check has to say the request that it is about: ${name} is missing, repeated or malformed.`
  return { kind: 'malformed', detail }
}

function original(dialect: Dialect, request: AdmittedRequest, bodyComes: boolean): OriginalRequest {
  const [hopId] = linesOf(request.headers, HOP_IDS[dialect])
  const partial = linesOf(request.headers, 'x-envoy-auth-partial-body').some((value) => value !== 'false')
  // A missing body is no proof: Envoy sends `content-length: 0` also if it is configured to send no body.
  const body = partial ? 'partial' : bodyComes ? 'whole' : 'unknown'
  return {
    kind: 'original',
    original: { dialect, request, hopId: hopId === '' ? undefined : hopId, body },
  }
}

function withTarget(check: AdmittedRequest, method: string, target: string): AdmittedRequest {
  const queryAt = target.indexOf('?')
  return {
    ...check,
    method,
    target,
    path: queryAt === -1 ? target : target.slice(0, queryAt),
    query: queryAt === -1 ? undefined : target.slice(queryAt + 1),
  }
}

function withSlash(target: string): string {
  return target.startsWith('/') ? target : `/${target}`
}
