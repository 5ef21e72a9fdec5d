/**
 * Envoy's side of its two services: a check, and a request that passes through with its answer. For `fencepost probe`, which asks
 * sidecars as Envoy does.
 *
 * Owns the order in which Envoy sends its messages, and what the replies make of an answer: what the client of Envoy would get.
 */

import { getCACertificates } from 'node:tls'
import {
  type CallOptions,
  ChannelCredentials,
  type Client,
  type ClientDuplexStream,
  Metadata,
  makeGenericClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js'
import type { HeaderList } from '../../core/header-list.ts'
import { TOKEN_HEADER } from '../check/check-answers.ts'
import {
  AUTHORIZATION,
  BODY_MODES,
  type CheckResponse,
  EXTERNAL_PROCESSOR,
  type HeaderMap,
  type HeaderValueOption,
  linesFrom,
  type ProcessingRequest,
  type ProcessingResponse,
} from './messages.ts'

export type EnvoyRequest = {
  /** Envoy's own number of it: a check with the same one is a retry of the check. */
  readonly id: string
  readonly method: string
  readonly path: string
  readonly host: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export type EnvoyAnswer = { readonly status: number; readonly headers: Headers; readonly text: string }

export type EnvoyCaller = Disposable & {
  /** ext_authz. Let through: 200, with the header lines that the application would get. Rejects where there is no reply. */
  check(url: string, request: EnvoyRequest, timeoutMs: number): Promise<EnvoyAnswer>
  /** ext_proc. @param execute is the application: called where the request reaches it. Rejects where there is no reply. */
  process(
    url: string,
    request: EnvoyRequest,
    execute: () => EnvoyAnswer,
    timeoutMs: number,
  ): Promise<EnvoyAnswer>
}

type Services = Client & {
  Check(
    request: unknown,
    metadata: Metadata,
    options: CallOptions,
    done: (error: ServiceError | null, response: CheckResponse) => void,
  ): void
  Process(metadata: Metadata, options: CallOptions): ClientDuplexStream<ProcessingRequest, ProcessingResponse>
}

const SERVICES = makeGenericClientConstructor({ ...AUTHORIZATION, ...EXTERNAL_PROCESSOR }, 'envoy')

/** @param token of the gateway listener, where it asks for one */
export function createEnvoyCaller(token: string | undefined): EnvoyCaller {
  const clients = new Map<string, Services>()
  const metadata = new Metadata()
  if (token !== undefined) metadata.set(TOKEN_HEADER, token)

  function clientOf(url: string): Services {
    const known = clients.get(url)
    if (known !== undefined) return known
    const { host, protocol } = new URL(url)
    const credentials =
      protocol === 'https:'
        ? ChannelCredentials.createSsl(authorities())
        : ChannelCredentials.createInsecure()
    // A repeated call would look like a duplicate that nobody sent.
    const client = new SERVICES(host, credentials, { 'grpc.enable_retries': 0 }) as unknown as Services
    clients.set(url, client)
    return client
  }

  return {
    check: (url, request, timeoutMs) =>
      new Promise((resolve, reject) => {
        clientOf(url).Check(checkOf(request), metadata, { deadline: endOf(timeoutMs) }, (error, response) =>
          error === null ? resolve(answerOfCheck(response)) : reject(error),
        )
      }),
    process: async (url, request, execute, timeoutMs) => {
      const stream = clientOf(url).Process(metadata, { deadline: endOf(timeoutMs) })
      // The iterator has the error, too.
      stream.on('error', () => {})
      try {
        return await pass(stream, request, execute)
      } finally {
        stream.cancel()
      }
    },
    [Symbol.dispose]: () => {
      for (const client of clients.values()) client.close()
    },
  }
}

/** gRPC by itself leaves out those of NODE_EXTRA_CA_CERTS. */
function authorities(): Buffer {
  return Buffer.from(getCACertificates('default').join('\n'))
}

function endOf(timeoutMs: number): Date {
  return new Date(Date.now() + timeoutMs)
}

function checkOf({ id, method, path, host, headers, body }: EnvoyRequest) {
  const rawBody = Buffer.from(body)
  const http = { id, method, path, host, headerMap: mapOf(headers), rawBody, size: rawBody.length }
  return { attributes: { request: { http } } }
}

function answerOfCheck({ okResponse, deniedResponse }: CheckResponse): EnvoyAnswer {
  return deniedResponse === undefined
    ? { status: 200, headers: headersFrom(okResponse?.headers), text: '' }
    : {
        status: deniedResponse.status.code,
        headers: headersFrom(deniedResponse.headers),
        text: deniedResponse.body,
      }
}

/** The filter as docs/guide/gateways.md configures it. */
const SHOWN = { requestBodyMode: BODY_MODES.buffered, responseBodyMode: BODY_MODES.bufferedPartial }

async function pass(
  stream: ClientDuplexStream<ProcessingRequest, ProcessingResponse>,
  { method, path, host, headers, body }: EnvoyRequest,
  execute: () => EnvoyAnswer,
): Promise<EnvoyAnswer> {
  const replies = stream[Symbol.asyncIterator]() as AsyncIterator<ProcessingResponse>
  const send = async (message: ProcessingRequest): Promise<ProcessingResponse | undefined> => {
    stream.write(message)
    const { value, done } = await replies.next()
    return done === true ? undefined : value
  }
  const pseudo = { ':method': method, ':path': path, ':authority': host }
  const requested: readonly ProcessingRequest[] = [
    { requestHeaders: { headers: mapOf({ ...pseudo, ...headers }) }, protocolConfig: SHOWN },
    { requestBody: { body: Buffer.from(body), endOfStream: true } },
  ]
  for (const message of requested) {
    const reply = await send(message)
    // The sidecar has ended the stream: Envoy goes on without it, and the request is not protected.
    if (reply === undefined) return execute()
    if (reply.immediateResponse) return immediate(reply.immediateResponse)
  }
  const executed = execute()
  const set: HeaderList[] = []
  for (const message of answeredWith(executed)) {
    const reply = await send(message)
    if (reply === undefined) break
    if (reply.immediateResponse) return immediate(reply.immediateResponse)
    const { headerMutation } = (reply.responseHeaders ?? reply.responseBody)?.response ?? {}
    set.push(linesOf(headerMutation?.setHeaders))
  }
  const told = new Headers(executed.headers)
  for (const [name, value] of set.flat()) told.set(name, value)
  return { ...executed, headers: told }
}

function answeredWith({ status, headers, text }: EnvoyAnswer): readonly ProcessingRequest[] {
  const fields = {
    'response.code_details': { stringValue: 'via_upstream' },
    'upstream.request_attempt_count': { numberValue: 1 },
  }
  return [
    {
      responseHeaders: { headers: mapOf({ ':status': String(status), ...Object.fromEntries(headers) }) },
      attributes: { 'envoy.filters.http.ext_proc': { fields } },
    },
    { responseBody: { body: Buffer.from(text), endOfStream: true } },
  ]
}

function immediate({
  status,
  headers,
  body,
}: NonNullable<ProcessingResponse['immediateResponse']>): EnvoyAnswer {
  return {
    status: status.code,
    headers: headersFrom(headers?.setHeaders),
    text: body?.toString('utf8') ?? '',
  }
}

function mapOf(headers: Readonly<Record<string, string>>): HeaderMap {
  const lines = Object.entries(headers)
  return { headers: lines.map(([key, value]) => ({ key, rawValue: Buffer.from(value, 'latin1') })) }
}

function linesOf(options: readonly HeaderValueOption[] | undefined): HeaderList {
  return linesFrom({ headers: (options ?? []).map(({ header }) => header) })
}

function headersFrom(options: readonly HeaderValueOption[] | undefined): Headers {
  return new Headers(linesOf(options).map(([name, value]): [string, string] => [name, value]))
}
