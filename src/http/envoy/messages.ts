/**
 * The messages of Envoy's two services, as they are on the wire (the .proto files beside this one) and as types.
 *
 * Owns the conversion of header lines: names in lower case, and values as the bytes received, each byte one character (Latin-1), as
 * Node's parser gives them to the proxy. So a request has the same identity through both.
 */

import { fileURLToPath } from 'node:url'
import type { ServiceDefinition } from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import type { HeaderList } from '../../core/header-list.ts'

type HeaderValue = { readonly key?: string; readonly value?: string; readonly rawValue?: Buffer }
export type HeaderMap = { readonly headers?: readonly HeaderValue[] }
export type HeaderValueOption = {
  readonly header: HeaderValue
  readonly append?: { readonly value: boolean }
  readonly appendAction?: number
}

export type CheckRequest = {
  readonly attributes?: { readonly request?: { readonly http?: CheckedHttpRequest } }
}
export type CheckedHttpRequest = {
  readonly id?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly path?: string
  readonly host?: string
  readonly size?: number
  readonly rawBody?: Buffer
  readonly headerMap?: HeaderMap
}
export type CheckResponse = {
  readonly status: { readonly code: number }
  readonly okResponse?: {
    readonly headers: readonly HeaderValueOption[]
    readonly headersToRemove: readonly string[]
  }
  readonly deniedResponse?: {
    readonly status: { readonly code: number }
    readonly headers: readonly HeaderValueOption[]
    readonly body: string
  }
}

type HttpHead = { readonly headers?: HeaderMap; readonly endOfStream?: boolean }
export type HttpBody = { readonly body?: Buffer; readonly endOfStream?: boolean }
type HttpTrailers = { readonly trailers?: HeaderMap }
export type Attribute = { readonly stringValue?: string; readonly numberValue?: number }

/** A message of Envoy; its reply has the same name. */
export type Phase =
  | 'requestHeaders'
  | 'requestBody'
  | 'requestTrailers'
  | 'responseHeaders'
  | 'responseBody'
  | 'responseTrailers'

export const BODY_MODES = { none: 0, streamed: 1, buffered: 2, bufferedPartial: 3 } as const

export type ProcessingRequest = {
  readonly request?: Phase
  readonly requestHeaders?: HttpHead
  readonly responseHeaders?: HttpHead
  readonly requestBody?: HttpBody
  readonly responseBody?: HttpBody
  readonly responseTrailers?: HttpTrailers
  readonly attributes?: Readonly<Record<string, { readonly fields?: Readonly<Record<string, Attribute>> }>>
  readonly protocolConfig?: { readonly requestBodyMode?: number; readonly responseBodyMode?: number }
}

export type HeaderMutation = {
  readonly setHeaders: readonly HeaderValueOption[]
  readonly removeHeaders: readonly string[]
}
type Mutation = { readonly headerMutation?: HeaderMutation }
/** Head and body have a part for it; trailers are it. */
type Continued = { readonly response?: Mutation } & Mutation
export type ProcessingResponse = { readonly [phase in Phase]?: Continued } & {
  readonly immediateResponse?: {
    readonly status: { readonly code: number }
    readonly headers: HeaderMutation
    readonly body: Buffer
    readonly details: string
  }
  readonly modeOverride?: ProcessingMode
}

export type ProcessingMode = {
  readonly responseHeaderMode: number
  readonly requestBodyMode: number
  readonly responseBodyMode: number
  readonly requestTrailerMode: number
  readonly responseTrailerMode: number
}
const [SEND, SKIP] = [1, 2]

/** For one request: Envoy sends neither its body nor anything of its answer. */
export const NOTHING_MORE: ProcessingMode = {
  responseHeaderMode: SKIP,
  requestBodyMode: BODY_MODES.none,
  responseBodyMode: BODY_MODES.none,
  requestTrailerMode: SKIP,
  responseTrailerMode: SKIP,
}
/** For one answer: Envoy does not send its body. */
export const BODY_PASSES_BY: ProcessingMode = { ...NOTHING_MORE, responseHeaderMode: SEND }
/** For one answer: Envoy sends what is behind its body, which goes on meanwhile. */
export const ONLY_TRAILERS: ProcessingMode = { ...BODY_PASSES_BY, responseTrailerMode: SEND }
/**
 * For one request: everything, trailers too. A body that consists only of trailers is not sent as a body, and Envoy
 * would let the request go on without a decision.
 */
export const EVERYTHING: ProcessingMode = {
  responseHeaderMode: SEND,
  requestBodyMode: BODY_MODES.buffered,
  responseBodyMode: BODY_MODES.bufferedPartial,
  requestTrailerMode: SEND,
  responseTrailerMode: SEND,
}

const LOADED = loadSync(['ext_authz.proto', 'ext_proc.proto'], {
  includeDirs: [fileURLToPath(new URL('.', import.meta.url))],
  keepCase: false,
  longs: Number,
  enums: Number,
  bytes: Buffer,
  defaults: false,
  oneofs: true,
})

export const AUTHORIZATION = LOADED['envoy.service.auth.v3.Authorization'] as ServiceDefinition
export const EXTERNAL_PROCESSOR = LOADED['envoy.service.ext_proc.v3.ExternalProcessor'] as ServiceDefinition

/** With HTTP/2's pseudo-headers, whose names begin with a colon. */
export function linesFrom(map: HeaderMap | undefined): HeaderList {
  return (map?.headers ?? []).map(({ key = '', value = '', rawValue }) => [
    key,
    (rawValue !== undefined && rawValue.length > 0 ? rawValue : Buffer.from(value, 'utf8')).toString(
      'latin1',
    ),
  ])
}

/** A head without its pseudo-headers, the authority as `Host`. */
export function ordinaryLines(lines: HeaderList): HeaderList {
  return lines.flatMap(([name, value]): HeaderList => {
    if (name === ':authority') return [['host', value]]
    return name.startsWith(':') ? [] : [[name, value]]
  })
}

export function pseudoHeader(lines: HeaderList, name: string): string | undefined {
  return lines.find(([each]) => each === name)?.[1]
}

/** The first line of a name replaces existing ones, further lines are added. */
export function setting(lines: HeaderList, as: 'bytes' | 'text'): HeaderValueOption[] {
  const begun = new Set<string>()
  return lines.map(([name, value]) => {
    const key = name.toLowerCase()
    const first = !begun.has(key)
    begun.add(key)
    const header = as === 'text' ? { key, value } : { key, rawValue: Buffer.from(value, 'latin1') }
    return first ? { header, appendAction: 2 } : { header, append: { value: true } }
  })
}
