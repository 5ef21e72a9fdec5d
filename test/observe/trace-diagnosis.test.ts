// What OpenTelemetry's SDK says about itself: which lines of our log, and how many.
import { expect, test } from 'vitest'
import { createLog } from '../../src/observe/log.ts'
import { diagnosisTo } from '../../src/observe/trace-diagnosis.ts'
import { startApplication } from '../support/application.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { startOtlpReceiver } from '../support/otlp-receiver.ts'
import { between, startSidecar } from '../support/sidecar.ts'

const SAMPLED = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

function diagnosed() {
  const lines: Record<string, unknown>[] = []
  const target = { write: (line: string) => void lines.push(JSON.parse(line)) }
  let nowMs = 0
  const diagnosis = diagnosisTo(
    createLog({ level: 'info', instance: 'pod-1', target, onLost: () => {} }),
    () => nowMs,
  )
  return {
    lines,
    diagnosis,
    advance: (ms: number) => {
      nowMs += ms
    },
  }
}

test.each([
  [
    '{"message":"connect ECONNREFUSED 127.0.0.1:1","code":"ECONNREFUSED"}',
    'connect ECONNREFUSED 127.0.0.1:1',
  ],
  ['{"message":"Unauthorized","code":"401","data":"canary"}', 'Unauthorized (401)'],
  ['{"message":"","code":"ECONNREFUSED"}', 'ECONNREFUSED'],
  ['{"name":"AggregateError","code":"ETIMEDOUT"}', 'ETIMEDOUT'],
  ['spelled out', 'spelled out'],
  // Bug: it did not say what the collector had answered.
  [
    '{"message":"Export failed with retryable status"}',
    'the collector answered each try of ten seconds with 429, 502, 503 or 504: it takes no more spans now, or is not there behind its load balancer',
  ],
])('an exception of the SDK is its reason alone: %s', (said, error) => {
  const { lines, diagnosis } = diagnosed()
  diagnosis.error(said)
  expect(lines).toMatchObject([
    { level: 'warn', event: 'tracing', error, message: `spans were not sent to the collector: ${error}` },
  ])
  expect(JSON.stringify(lines)).not.toContain('canary')
})

test('what is said again and again is written at once, and then once a minute with the number between', () => {
  const { lines, diagnosis, advance } = diagnosed()
  for (let batch = 0; batch < 100; batch += 1) {
    diagnosis.error('{"message":"Unauthorized","code":"401"}')
    diagnosis.warn(`Dropped ${batch} spans because maxQueueSize reached`)
    advance(500)
  }
  expect(lines).toHaveLength(2)
  advance(10_000)
  diagnosis.error('{"message":"Unauthorized","code":"401"}')
  expect(lines.slice(2)).toMatchObject([{ error: 'Unauthorized (401)', repeated: 99 }])
})

// Bug: the sentence stood alone, and how many spans a collector had refused, and why, was lost.
test('what the SDK says behind a sentence is in the line', () => {
  const { lines, diagnosis } = diagnosed()
  const answer = { partialSuccess: { rejectedSpans: 5, errorMessage: 'too large' } }
  diagnosis.warn('Received Partial Success response:', JSON.stringify(answer))
  diagnosis.warn(
    'Export succeeded but could not deserialize response',
    new Error('no protobuf'),
    new Uint8Array(2),
  )
  expect(lines.map(({ message }) => message)).toEqual([
    'OpenTelemetry: Received Partial Success response: {"partialSuccess":{"rejectedSpans":5,"errorMessage":"too large"}}',
    'OpenTelemetry: Export succeeded but could not deserialize response no protobuf',
  ])
})

test('a password in an address is in no line', () => {
  const { lines, diagnosis } = diagnosed()
  diagnosis.warn("Could not parse environment-provided export URL: 'http://me:canary@:4318'")
  diagnosis.refused(new TypeError('no address: http://me:canary@:4318'))
  expect(lines).toHaveLength(2)
  expect(JSON.stringify(lines)).not.toContain('canary')
})

async function askOnce(env: Readonly<Record<string, string>>): Promise<Record<string, unknown>[]> {
  await using receiver = await startOtlpReceiver()
  await using application = await startCountingApplication()
  let output = ''
  await using sidecar = await startSidecar(
    { ...receiver.env, ...between('embedded', application), ...env },
    {
      onOutput: (text) => {
        output += text
      },
    },
  )
  const headers = { 'idempotency-key': 'k', traceparent: SAMPLED }
  const answer = await fetch(`${sidecar.proxy}/p`, { method: 'POST', headers, body: 'x' })
  expect(answer.status).toBe(201)
  await sidecar.process.line(/"event":"tracing"/)
  await sidecar.process.end()
  // Whatever the SDK says is a line of JSON like all others.
  return output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}

// Bug: nothing anywhere said that spans were not sent.
test('a collector that refuses the spans is a line of the log', async () => {
  await using collector = await startApplication((_, response) => void response.writeHead(401).end('who?'))
  const lines = await askOnce({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.origin, OTEL_LOG_LEVEL: 'warn' })
  expect(lines).toContainEqual(
    expect.objectContaining({ level: 'warn', event: 'tracing', error: expect.stringContaining('401') }),
  )
})

// Bug: nothing said so here either, and no span was ever sent.
test('an exporter that is unknown is a line of the log', async () => {
  const lines = await askOnce({ OTEL_TRACES_EXPORTER: 'jaeger' })
  expect(lines).toContainEqual(
    expect.objectContaining({ event: 'tracing', message: expect.stringContaining('jaeger') }),
  )
})

// Bug: a variable of the platform that came out empty (`http://$(HOST_IP):4317`) ended the start with a TypeError.
test('an endpoint that is none is a line of the log, and the sidecar serves without traces', async () => {
  const lines = await askOnce({
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://:4317',
  })
  expect(lines).toContainEqual(
    expect.objectContaining({
      event: 'tracing',
      message: expect.stringContaining('OTEL_EXPORTER_OTLP_ENDPOINT'),
    }),
  )
})
