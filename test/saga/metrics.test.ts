// The kit's events are metrics in the application's own registry, under the documented names.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as promClient from 'prom-client'
import { afterAll, expect, test } from 'vitest'
import { withIdempotency } from '../../packages/saga/src/idempotency.ts'
import { type PrometheusClient, sagaMetrics } from '../../packages/saga/src/metrics.ts'
import { gaugesText } from '../../packages/saga/src/operations/gauges.ts'
import { publish } from '../../packages/saga/src/outbox.ts'
import { createOutboxRelay } from '../../packages/saga/src/relay.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'
import { orderEvent, testKit } from '../support/saga-kit.ts'

const server = duringTests(() => startPostgres())
afterAll(() => promClient.register.clear())

test('events are counted, with their durations', async () => {
  const kit = await testKit(server, { events: sagaMetrics(promClient as unknown as PrometheusClient) })
  const publisher = new RecordingPublisher()
  publisher.react = ({ aggregateId }) => (aggregateId === 'bad' ? 'refuse' : 'confirm')
  for (const aggregateId of ['good', 'bad'])
    await kit.transaction((tx) => publish(kit, tx, orderEvent('T', aggregateId, { destination: 'orders' })))
  await using relay = createOutboxRelay({ kit, publisher })
  await relay.drainOnce()
  const ask = () => withIdempotency(kit, { scope: 's', key: 'k', request: {} }, async () => null)
  await ask()
  await ask()
  const text = await promClient.register.metrics()
  expect(text).toContain('fencepost_saga_published_total{destination="orders",result="confirmed"} 1')
  expect(text).toContain('fencepost_saga_published_total{destination="orders",result="failed"} 1')
  expect(text).toContain('fencepost_saga_publish_duration_seconds_count{destination="orders"} 1')
  expect(text).toContain('fencepost_saga_replays_total{scope="s",outcome="completed"} 1')
})

test('the page lists exactly the metrics and the gauges', async () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/guide/saga.md'), 'utf8')
  const documented = new Set(page.match(/(?<=`)fencepost_\w+(?=`)/g))
  const ofGauges = [...gaugesText(undefined).matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!)
  const there = (await promClient.register.getMetricsAsJSON()).map(({ name }) => name)
  const counted = there.filter((name) => name.startsWith('fencepost_saga_'))
  expect([...documented].sort()).toEqual([...counted, ...ofGauges].sort())
})
