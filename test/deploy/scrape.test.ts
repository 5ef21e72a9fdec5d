/**
 * The configuration of the scrape finds fencepost where the manifests put it: a real Prometheus is given what its
 * discovery would say of the pod of deploy/k8s/example, each port of each container a target, and a real sidecar
 * answers. The discovery itself is not run: Debian's Prometheus is built without it.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { kustomized, type Manifest } from '../support/kubernetes-objects.ts'
import { startPrometheus } from '../support/prometheus-server.ts'
import { startSidecar } from '../support/sidecar.ts'

const root = join(import.meta.dirname, '../..')
const file = join(root, 'deploy/k8s/monitoring/prometheus.yaml')

type Target = { readonly targets: readonly string[]; readonly labels: Record<string, string> }

/** As the role `pod` of Prometheus' Kubernetes discovery describes a pod. */
function discovered(template: Manifest, addressOf: (port: string) => string, phase: string): Target[] {
  const { initContainers = [], containers } = template.spec
  return [...initContainers, ...containers].flatMap(({ name, ports = [] }: Manifest) =>
    ports.map((port: Manifest) => ({
      targets: [addressOf(port.name)],
      labels: {
        __meta_kubernetes_namespace: 'payments',
        __meta_kubernetes_pod_name: `payments-${phase.toLowerCase()}`,
        __meta_kubernetes_pod_phase: phase,
        __meta_kubernetes_pod_label_app_kubernetes_io_name:
          template.metadata.labels['app.kubernetes.io/name'],
        __meta_kubernetes_pod_container_name: name,
        __meta_kubernetes_pod_container_port_name: port.name,
      },
    })),
  )
}

let objects: Awaited<ReturnType<typeof kustomized>>
beforeAll(async () => {
  objects = await kustomized(join(root, 'deploy/k8s/example'))
}, FETCH_MS_MAX)

test('each pod is one target, the metrics of its sidecar', async () => {
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_UPSTREAM: 'http://127.0.0.1:9',
  })
  const { template } = objects.find(({ kind }) => kind === 'Deployment').spec
  const [{ kubernetes_sd_configs: discovery, ...config }] = parse(readFileSync(file, 'utf8')).scrape_configs
  const selected = discovery[0].selectors[0].label.split('=')
  expect(template.metadata.labels).toMatchObject({ [selected[0]]: selected[1] })

  const addressOf = (port: string) => new URL(port === 'fp-admin' ? sidecar.admin : sidecar.proxy).host
  const targets = [
    ...discovered(template, addressOf, 'Running'),
    ...discovered(template, addressOf, 'Succeeded'),
  ]
  expect(targets.length).toBeGreaterThan(2)
  await using prometheus = await startPrometheus({
    jobs: [],
    scrapeConfigs: [{ ...config, static_configs: targets }],
  })
  await prometheus.until('fencepost_build_info')
  const up = await prometheus.query('up')
  expect(up.map(({ metric }) => metric)).toEqual([
    expect.objectContaining({ job: 'payments', namespace: 'payments', pod: 'payments-running' }),
  ])
})
