/**
 * Headers that count without being chosen, wherever a request has them.
 *
 * Owns the two lists. A header belongs here when two requests that differ in it alone are two requests in the applications that
 * read it, and when a client that tries again sends it again as it was: no counters of attempts, times, traces, signatures. One that
 * is missing here can merge two requests; one too many makes a retry another request.
 */

import { linesOf } from '../formats/header-lines.ts'
import type { HeaderList } from '../header-list.ts'

/** What is asked for, beside method, path, query and body. They are part of every fingerprint. */
export const SAYING_WHAT: ReadonlySet<string> = new Set([
  // Which part of the whole the body is: RFC 9110, section 14.5.
  'content-range',
  // Resumable uploads: tus 1.0 (https://tus.io/protocols/resumable-upload), draft-ietf-httpbis-resumable-upload, Google's.
  'upload-offset',
  'upload-length',
  'upload-defer-length',
  'upload-metadata',
  'upload-concat',
  'upload-complete',
  'x-goog-upload-command',
  'x-goog-upload-offset',
  // WebDAV: RFC 4918, section 10. Atom: RFC 5023, section 9.7.
  'destination',
  'depth',
  'overwrite',
  'slug',
  // Another method than that of the request line.
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  // Which procedure: SOAP 1.1, section 6.1.1; JSON protocols of AWS; server actions of Next.js, server functions of SolidStart.
  'soapaction',
  'x-amz-target',
  'next-action',
  'x-server-id',
  // What is copied, without a body: S3.
  'x-amz-copy-source',
])

/**
 * Who asks, beside `Authorization`: sessions, keys, and the names that authenticating gateways state. They count where the content is
 * all that identifies a request, and nobody has said by what the route knows its clients.
 */
export const SAYING_WHO: ReadonlySet<string> = new Set([
  'cookie',
  // Keys and tokens.
  'api-key',
  'apikey',
  'x-api-key',
  'x-apikey',
  'x-auth-token',
  'x-access-token',
  'x-session-token',
  'x-session-id',
  'x-goog-api-key',
  'ocp-apim-subscription-key',
  // Names that applications give their users.
  'x-user-id',
  'x-account-id',
  'x-customer-id',
  'x-organization-id',
  // Names that gateways state: oauth2-proxy, CGI, Kong, Azure, AWS, Google, Cloudflare, Envoy, ingress-nginx.
  'remote-user',
  'x-remote-user',
  'x-forwarded-user',
  'x-auth-request-user',
  'x-consumer-id',
  'x-credential-identifier',
  'x-authenticated-userid',
  'x-ms-client-principal-id',
  'x-amzn-oidc-identity',
  'x-goog-authenticated-user-id',
  'cf-access-authenticated-user-email',
  'x-forwarded-client-cert',
  'ssl-client-subject-dn',
])

const NONE: readonly string[] = Object.freeze([])

/** @returns those of `counted` that the request has, sorted, each once */
export function countedIn(headers: HeaderList, counted: ReadonlySet<string>): readonly string[] {
  // Nearly no request has one.
  let found: Set<string> | undefined
  for (const [header] of headers) {
    const name = header.toLowerCase()
    if (!counted.has(name)) continue
    found ??= new Set()
    found.add(name)
  }
  return found === undefined ? NONE : [...found].sort()
}

/** Each header as a list of its own: its name, then each of its lines as it came. */
export function asLists(headers: HeaderList, names: readonly string[]): readonly (readonly string[])[] {
  return names.map((name) => [name, ...linesOf(headers, name)])
}
