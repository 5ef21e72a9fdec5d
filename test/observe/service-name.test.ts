// The name of the service in traces, from the variables of OpenTelemetry.
import { expect, test } from 'vitest'
import { serviceNameOf } from '../../src/observe/tracing.ts'
import { startOtlpReceiver } from '../support/otlp-receiver.ts'
import { postedJson } from '../support/post.ts'
import { startSidecar } from '../support/sidecar.ts'

test.each<
  [why: string, serviceName: string | undefined, resourceAttributes: string | undefined, name: string]
>([
  ['nothing is set', undefined, undefined, 'fencepost'],
  ['both are empty', '', '', 'fencepost'],
  ['its own variable', 'shop', undefined, 'shop'],
  ['an attribute', undefined, 'k8s.pod.name=a,service.name=shop', 'shop'],
  ['an attribute beside an empty variable', '', ' service.name = shop ,x=y', 'shop'],
  ['its own variable goes first', 'shop', 'service.name=other', 'shop'],
  ['percent-encoded', undefined, 'service.name=a%2Cb', 'a,b'],
  ['encoded wrongly', undefined, 'service.name=%zz', 'fencepost'],
  ['without a value', undefined, 'service.name', 'fencepost'],
])('%s', (_, serviceName, resourceAttributes, name) => {
  expect(serviceNameOf({ serviceName, resourceAttributes })).toBe(name)
})

// Bug: the spans of every sidecar were those of a service `fencepost`.
test('the spans of a sidecar have the name that its resource attributes say', async () => {
  await using receiver = await startOtlpReceiver()
  await using sidecar = await startSidecar({
    ...receiver.env,
    FENCEPOST_REDIS_NODES: 'embedded',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=shop-sidecar,deployment.environment=prod',
  })
  const intent = { session_id: 's', reserved_value: 'v' }
  await postedJson(`${sidecar.api}/v1/reservations`, intent)
  await sidecar.process.end()
  expect(receiver.spans.length).toBeGreaterThan(0)
  expect(new Set(receiver.spans.map(({ service }) => service))).toEqual(new Set(['shop-sidecar']))
})
