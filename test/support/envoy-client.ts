/**
 * Envoy's side of its two services, by hand: for messages that a real Envoy can't be made to send. The tests with a
 * real Envoy prove the form of the messages.
 */
import {
  ChannelCredentials,
  type Client,
  type ClientDuplexStream,
  Metadata,
  makeGenericClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js'
import {
  AUTHORIZATION,
  type CheckedHttpRequest,
  type CheckResponse,
  EXTERNAL_PROCESSOR,
  type HeaderMutation,
  type HeaderValueOption,
  type ProcessingRequest,
  type ProcessingResponse,
} from '../../src/http/envoy/messages.ts'

type Head = Readonly<Record<string, string>>

export type EnvoyClient = Disposable & {
  check(http: CheckedHttpRequest): Promise<CheckResponse>
  process(): Processing
}

export type Processing = {
  say(message: ProcessingRequest): void
  /** The next answer; rejects where the stream fails, and is undefined where it ends well. */
  answer(): Promise<ProcessingResponse | undefined>
  /** As Envoy does when its client or its application is gone. */
  cancel(): void
  end(): void
}

export function envoyClient(
  origin: string,
  { token, credentials }: { token?: string; credentials?: ChannelCredentials } = {},
): EnvoyClient {
  const definition = { ...AUTHORIZATION, ...EXTERNAL_PROCESSOR }
  const Made = makeGenericClientConstructor(definition, 'envoy')
  const client = new Made(new URL(origin).host, credentials ?? ChannelCredentials.createInsecure(), {
    'grpc.enable_retries': 0,
    // An address is not a name, and the certificate of a test is for both.
    'grpc.ssl_target_name_override': 'localhost',
  }) as unknown as Client & {
    Check(
      request: unknown,
      metadata: Metadata,
      done: (error: ServiceError | null, response: CheckResponse) => void,
    ): void
    Process(metadata: Metadata): ClientDuplexStream<ProcessingRequest, ProcessingResponse>
  }
  const metadata = new Metadata()
  if (token !== undefined) metadata.set('fencepost-gateway-token', token)
  return {
    check: (http) =>
      new Promise((resolve, reject) => {
        client.Check({ attributes: { request: { http } } }, metadata, (error, response) =>
          error === null ? resolve(response) : reject(error),
        )
      }),
    process: () => {
      const stream = client.Process(metadata)
      const answers = stream[Symbol.asyncIterator]()
      stream.on('error', () => {})
      return {
        say: (message) => void stream.write(message),
        answer: async () => {
          const { value, done } = await answers.next()
          return done === true ? undefined : value
        },
        cancel: () => stream.cancel(),
        end: () => stream.end(),
      }
    },
    [Symbol.dispose]: () => client.close(),
  }
}

const SHOWN = { requestBodyMode: 2, responseBodyMode: 3 } as const

/** The first message of a stream. */
export function requestHead(
  headers: Head,
  { body = false, protocolConfig = SHOWN as ProcessingRequest['protocolConfig'], method = 'POST' } = {},
): ProcessingRequest {
  const head = { ':method': method, ':path': '/payments', ':authority': 'shop', ...headers }
  return {
    requestHeaders: { headers: mapOf(head), endOfStream: !body },
    ...(protocolConfig === undefined ? {} : { protocolConfig }),
  } as ProcessingRequest
}

export function requestBody(body: string): ProcessingRequest {
  return { requestBody: { body: Buffer.from(body), endOfStream: true } }
}

export type Answered = {
  readonly details?: string | undefined
  readonly attempts?: number
  readonly body?: boolean
}

export function answerHead(
  status: number,
  headers: Head = {},
  { details = 'via_upstream', attempts = 1, body = false }: Answered = {},
): ProcessingRequest {
  const fields = {
    ...(details === 'unsaid' ? {} : { 'response.code_details': { stringValue: details } }),
    'upstream.request_attempt_count': { numberValue: attempts },
  }
  return {
    responseHeaders: { headers: mapOf({ ':status': String(status), ...headers }), endOfStream: !body },
    attributes: { 'envoy.filters.http.ext_proc': { fields } },
  }
}

export function answerBody(body: string, endOfStream = true): ProcessingRequest {
  return { responseBody: { body: Buffer.from(body), endOfStream } }
}

function mapOf(head: Head) {
  return {
    headers: Object.entries(head).map(([key, value]) => ({ key, rawValue: Buffer.from(value, 'latin1') })),
  }
}

/** Header lines that are set, by name. */
export function setBy(options: readonly HeaderValueOption[] = []): Record<string, string> {
  return Object.fromEntries(
    options.map(({ header: { key = '', value = '', rawValue } }) => [
      key,
      rawValue !== undefined && rawValue.length > 0 ? rawValue.toString('latin1') : value,
    ]),
  )
}

export function mutationOf(response: ProcessingResponse | undefined): HeaderMutation | undefined {
  return Object.values(response ?? {}).find(
    (part): part is { response: { headerMutation?: HeaderMutation } } =>
      typeof part === 'object' && 'response' in part,
  )?.response.headerMutation
}
