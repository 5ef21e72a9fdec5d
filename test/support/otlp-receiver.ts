/** Receives traces as a collector does: OTLP over HTTP with JSON bodies, kept as they came and as flat spans. */

import { createServer } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { eventually } from './eventually.ts'
import { listening } from './listening.ts'

type Value = {
  readonly stringValue?: string
  readonly intValue?: string | number
  readonly doubleValue?: number
  readonly boolValue?: boolean
}
type RawSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes?: readonly { readonly key: string; readonly value: Value }[]
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[]
  readonly status?: { readonly code?: number }
}

export type ReceivedSpan = Omit<RawSpan, 'attributes'> & {
  readonly attributes: Readonly<Record<string, string | number | boolean | undefined>>
  readonly service: unknown
  readonly scope: { readonly name: string; readonly version?: string }
  /** Of the resource, by name. */
  readonly resource: Readonly<Record<string, unknown>>
}

export type OtlpReceiver = AsyncDisposable & {
  /** Settings for a process that sends here without a delay. */
  readonly env: Readonly<Record<string, string>>
  readonly spans: readonly ReceivedSpan[]
  /** Everything received, byte for byte. */
  raw(): string
  /** Waits for spans that satisfy a condition. */
  until<T>(sentence: string, find: (spans: readonly ReceivedSpan[]) => T | undefined): Promise<T>
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = []
  const bodies: string[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const bytes = Buffer.concat(parts)
      const body = (request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString()
      bodies.push(body)
      if (request.url === '/v1/traces') spans.push(...spansOf(body))
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  const at = await listening(server)
  return {
    env: {
      FENCEPOST_TRACING: 'on',
      FENCEPOST_TRACE_SAMPLE_RATIO: '1',
      OTEL_EXPORTER_OTLP_ENDPOINT: at.origin,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '50',
    },
    spans,
    raw: () => bodies.join('\n'),
    until: (sentence, find) =>
      eventually(sentence, () => find(spans), { withinMs: 15_000 }) as Promise<never>,
    [Symbol.asyncDispose]: at[Symbol.asyncDispose],
  }
}

function spansOf(body: string): ReceivedSpan[] {
  const { resourceSpans } = JSON.parse(body) as {
    resourceSpans: {
      resource: { attributes: { key: string; value: Value }[] }
      scopeSpans: { scope: ReceivedSpan['scope']; spans: RawSpan[] }[]
    }[]
  }
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const of = Object.fromEntries(resource.attributes.map(({ key, value }) => [key, plain(value)]))
    return scopeSpans.flatMap(({ scope, spans }) =>
      spans.map((span) => ({
        ...span,
        service: of['service.name'],
        resource: of,
        scope,
        attributes: Object.fromEntries((span.attributes ?? []).map(({ key, value }) => [key, plain(value)])),
      })),
    )
  })
}

function plain({ stringValue, intValue, doubleValue, boolValue }: Value) {
  return stringValue ?? (intValue === undefined ? undefined : Number(intValue)) ?? doubleValue ?? boolValue
}
