// The spans of the kit: what they say of a message, and what they may not.
import { SpanKind, SpanStatusCode } from '@opentelemetry/api'
import * as promClient from 'prom-client'
import { afterAll, beforeEach, expect, test } from 'vitest'
import type { SagaEvent } from '../../packages/saga/src/events.ts'
import { type PrometheusClient, sagaMetrics } from '../../packages/saga/src/metrics.ts'
import { inProcessSpan, inSendSpan, withCreationContext } from '../../packages/saga/src/trace-context.ts'
import { recordSpans } from '../support/recording-tracer.ts'

// A tracer belongs to the first SDK of its process.
const recorded = recordSpans()
beforeEach(() => void recorded.spans.splice(0))
afterAll(() => recorded[Symbol.dispose]())

// Bug: the destination of a webhook is its URL, and the names and attributes of two spans had it whole, with the secrets of path and query.
test.each([
  ['https://key:canary-1@hooks.example:8443/T0/canary-2?token=canary-3', 'hooks.example:8443'],
  ['https://hooks.example/canary-2', 'hooks.example'],
  ['orders', 'orders'],
  ['orders:placed.v1', 'orders:placed.v1'],
])('the destination %s is %s in its spans', async (destination, shown) => {
  const headers = withCreationContext({}, destination, 'm-1')
  await inSendSpan(headers, destination, 'm-1', async () => {})
  expect(recorded.spans.map(({ name }) => name)).toEqual([`create ${shown}`, `send ${shown}`])
  for (const { attributes } of recorded.spans)
    expect(attributes).toMatchObject({ 'messaging.destination.name': shown, 'messaging.message.id': 'm-1' })
  expect(JSON.stringify(recorded.spans)).not.toContain('canary')
})

test('each span says its operation by the conventions, and a consumer is no destination', async () => {
  const headers = withCreationContext({}, 'orders', 'm-1')
  await inSendSpan(headers, 'orders', 'm-1', async () => {})
  await inProcessSpan(headers, 'invoices', 'm-1', async () => {})
  const [created, sent, processed] = recorded.spans
  expect(created).toMatchObject({
    kind: SpanKind.PRODUCER,
    attributes: { 'messaging.operation.type': 'create' },
  })
  expect(sent).toMatchObject({ kind: SpanKind.CLIENT, attributes: { 'messaging.operation.type': 'send' } })
  expect(sent?.links).toMatchObject([{ context: { spanId: created?.context.spanId } }])
  expect(processed).toMatchObject({
    name: 'process invoices',
    kind: SpanKind.CONSUMER,
    parent: { traceId: created?.context.traceId, spanId: created?.context.spanId },
    attributes: { 'messaging.operation.type': 'process', 'messaging.consumer.group.name': 'invoices' },
  })
  expect(processed?.attributes).not.toHaveProperty('messaging.destination.name')
})

// Bug: the name of the error was the description of the status alone, by which no backend counts.
test('a span of what failed has the name of the error as its error.type', async () => {
  const failing = inProcessSpan({}, 'invoices', 'm-1', async () => {
    throw new RangeError('canary')
  })
  await expect(failing).rejects.toThrow(RangeError)
  expect(recorded.spans).toMatchObject([
    { attributes: { 'error.type': 'RangeError' }, status: { code: SpanStatusCode.ERROR } },
  ])
  expect(JSON.stringify(recorded.spans)).not.toContain('canary')
})

// Bug: so had the label of three metrics, and each receiver was a series of its own.
test('the destination of a webhook is its host in the metrics', async () => {
  const events = sagaMetrics(promClient as unknown as PrometheusClient)
  const observe = (event: SagaEvent) => (events as (event: SagaEvent) => void)(event)
  const destination = 'https://key:canary-1@hooks.example/T0/canary-2?token=canary-3'
  observe({ kind: 'published', destination, durationMs: 1, ageMs: 1 })
  observe({ kind: 'publish_failed', destination, error: new Error('refused') })
  const text = await promClient.register.metrics()
  promClient.register.clear()
  expect(text).toContain('destination="hooks.example"')
  expect(text).not.toContain('canary')
})
