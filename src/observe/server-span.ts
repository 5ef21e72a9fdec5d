/**
 * What the span of a request is named, and what it says of the request before its answer.
 *
 * Owns which words of a client may stand in a span. Method and host are the client's, so each method that is not a known one has the same
 * name. Its address, user agent, path and query are not there: they say who somebody is, or carry keys.
 *
 * Source: OpenTelemetry semantic conventions, HTTP server spans.
 */

import type { Attributes } from '@opentelemetry/api'
import type { TracedRequest } from '../core/tracing.ts'

/** RFC 9110, section 9.3, and RFC 5789: to the conventions every other method is `_OTHER`. */
const KNOWN_METHODS: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'CONNECT',
  'OPTIONS',
  'TRACE',
])
/** A name or an address, in brackets where it has colons, and a port. */
const HOST = /^(\[[^\]]+\]|[^:]+)(?::([0-9]{1,5}))?$/

export function serverSpan({ method, route, scheme, host, protocolVersion }: TracedRequest): {
  readonly name: string
  readonly attributes: Attributes
} {
  const known = KNOWN_METHODS.has(method)
  const verb = known ? method : 'HTTP'
  const [statedScheme, addressed] = [scheme(), host()]
  return {
    name: route === undefined ? verb : `${verb} ${route}`,
    attributes: {
      'http.request.method': known ? method : '_OTHER',
      ...(known ? {} : { 'http.request.method_original': method }),
      ...(statedScheme === undefined ? {} : { 'url.scheme': statedScheme }),
      ...(protocolVersion === undefined ? {} : { 'network.protocol.version': protocolVersion }),
      ...(route === undefined ? {} : { 'http.route': route }),
      ...(addressed === undefined ? {} : addressOf(addressed)),
    },
  }
}

function addressOf(host: string): Attributes {
  const [, address, port] = HOST.exec(host.trim()) ?? []
  if (address === undefined) return {}
  const plain = address.startsWith('[') ? address.slice(1, -1) : address
  return { 'server.address': plain, ...(port === undefined ? {} : { 'server.port': Number(port) }) }
}
