/** What is installed: the chart with its five nodes and the service, and an application with the sidecar of the library chart. */
import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eventually } from '../support/eventually.ts'
import type { Manifest } from '../support/kubernetes-objects.ts'
import { PATIENT } from '../support/sidecar.ts'
import { type Cluster, isReady } from './cluster.ts'

const USERS = join(import.meta.dirname, '../../deploy/k8s/nodes-tls-acl/users.acl.example')
export const NAMESPACE = 'shop'
export const NODES = [0, 1, 2, 3, 4].map((index) => `rel-redis-${index}`)
const SETTLED_MS_MAX = 600_000

/**
 * For a machine that others use, too: two cores for a whole cluster, and a load of fifty. By default a claim has 100 ms, and a pod whose
 * claims take longer is unready.
 */
export const PATIENT_SETTINGS = { ...PATIENT, FENCEPOST_READINESS_LATENCY_GATE: 'report' }
const PATIENT_PROBES = {
  startup: { periodSeconds: 2, failureThreshold: 150 },
  readiness: { periodSeconds: 5, timeoutSeconds: 20, failureThreshold: 3 },
  liveness: { periodSeconds: 10, timeoutSeconds: 20, failureThreshold: 6 },
}

export type Patience = { readonly patient: boolean }

/** Everything else is as shipped. */
function chartValues({ patient }: Patience): object {
  return {
    ...(patient ? { settings: PATIENT_SETTINGS } : {}),
    service: { tokenSecret: 'fencepost-token', replicas: 2, ...(patient ? { probes: PATIENT_PROBES } : {}) },
    redis: {
      username: 'fencepost',
      passwordSecret: 'fencepost-redis',
      bundled: {
        usersSecret: 'fencepost-redis',
        ...(patient ? { probes: PATIENT_PROBES } : {}),
        // There is one machine.
        affinity: {
          podAntiAffinity: {
            preferredDuringSchedulingIgnoredDuringExecution: [
              {
                weight: 1,
                podAffinityTerm: {
                  topologyKey: 'kubernetes.io/hostname',
                  labelSelector: { matchLabels: { 'app.kubernetes.io/name': 'fencepost-redis' } },
                },
              },
            ],
          },
        },
      },
    },
  }
}

export class Release {
  readonly cluster: Cluster
  readonly #values: string
  readonly #applicationValues: string
  readonly #patience: Patience

  constructor(cluster: Cluster, patience: Patience) {
    this.cluster = cluster
    this.#patience = patience
    this.#values = join(cluster.machine.folder, 'values.json')
    this.#applicationValues = join(cluster.machine.folder, 'application.json')
  }

  async install(): Promise<void> {
    await this.writeValues()
    await this.cluster.apply({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: NAMESPACE, labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
    })
    const password = randomBytes(16).toString('hex')
    const users = (await readFile(USERS, 'utf8'))
      .replace('replace-this-password', password)
      .replace(/^user operator.*\n/m, '')
    await this.cluster.apply(
      secret('fencepost-token', { token: randomBytes(16).toString('hex') }),
      secret('fencepost-redis', { password, 'users.acl': users }),
    )
    await this.helm('install', 'rel', 'fencepost', this.#values)
    await this.settled()
  }

  async writeValues(): Promise<void> {
    const nodes = NODES.map((name) => `redis://${name}.rel-redis.${NAMESPACE}.svc:6379`)
    const patient = this.#patience.patient ? { settings: PATIENT_SETTINGS, probes: PATIENT_PROBES } : {}
    const fencepost = {
      nodes,
      redisUsername: 'fencepost',
      redisPasswordSecret: 'fencepost-redis',
      ...patient,
    }
    await writeFile(this.#values, JSON.stringify(chartValues(this.#patience)))
    await writeFile(this.#applicationValues, JSON.stringify({ fencepost }))
  }

  /** The application with its sidecar, and the Service that leads to the sidecar. */
  async installApplication(): Promise<void> {
    await this.helm('install', 'payments', 'example', this.#applicationValues)
    await this.cluster.apply({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'payments', namespace: NAMESPACE },
      spec: {
        selector: { 'app.kubernetes.io/instance': 'payments' },
        ports: [{ name: 'http', port: 80, targetPort: 8080 }],
      },
    })
    await this.settled()
  }

  /** The machine has room for one installation at a time. */
  async uninstall(): Promise<void> {
    await this.cluster.helm('--namespace', NAMESPACE, 'uninstall', 'payments', 'rel', '--wait')
  }

  helm(command: 'install' | 'upgrade', release: string, chart: string, values: string, ...more: string[]) {
    const args = [release, join(this.cluster.charts, chart), '--values', values, ...more]
    return this.cluster.helm('--namespace', NAMESPACE, command, ...args)
  }

  upgrade(...more: string[]): Promise<string> {
    return this.helm('upgrade', 'rel', 'fencepost', this.#values, ...more)
  }

  upgradeApplication(...more: string[]): Promise<string> {
    return this.helm('upgrade', 'payments', 'example', this.#applicationValues, ...more)
  }

  test(): Promise<string> {
    return this.cluster.helm('--namespace', NAMESPACE, 'test', 'rel', '--timeout', '120s')
  }

  kubectl(...args: readonly string[]): Promise<string> {
    return this.cluster.kubectl('--namespace', NAMESPACE, ...args)
  }

  get(...args: readonly string[]): Promise<Manifest> {
    return this.cluster.get('--namespace', NAMESPACE, ...args)
  }

  /** As `kubectl drain` does. @throws where the disruption budget refuses it */
  evict(pod: string): Promise<void> {
    const metadata = { name: pod, namespace: NAMESPACE }
    const path = `/api/v1/namespaces/${NAMESPACE}/pods/${pod}/eviction`
    return this.cluster.create(path, { apiVersion: 'policy/v1', kind: 'Eviction', metadata })
  }

  async pods(selector: string): Promise<Manifest[]> {
    return (await this.get('pods', '--selector', selector)).items
  }

  applicationPods(): Promise<Manifest[]> {
    return this.pods('app.kubernetes.io/instance=payments')
  }

  /** The address at which the Service answers: that of every cluster-internal client. */
  async serviceAddress(): Promise<string> {
    const { spec } = await this.get('service', 'payments')
    return `http://${spec.clusterIP}`
  }

  /** Admin listeners of the sidecars of the application. */
  async sidecars(): Promise<string[]> {
    return (await this.applicationPods()).map(({ status }) => `http://${status.podIP}:9090`)
  }

  /** Every workload has as many ready and updated pods as it wants, and no other one is left. */
  async settled(withinMs = SETTLED_MS_MAX): Promise<void> {
    const isSettled = async () => {
      const { items } = await this.get('deployments,statefulsets')
      const { items: pods } = await this.get('pods')
      const wanted = items.reduce((sum: number, { spec }: Manifest) => sum + spec.replicas, 0)
      const running = pods.filter(({ metadata }: Manifest) => metadata.ownerReferences !== undefined)
      return (
        items.every(({ metadata, spec, status }: Manifest) => {
          const seen = status.observedGeneration === metadata.generation
          return (
            seen &&
            (status.updatedReplicas ?? 0) === spec.replicas &&
            (status.readyReplicas ?? 0) === spec.replicas
          )
        }) &&
        running.length === wanted &&
        running.every(({ status }: Manifest) => status.conditions?.some(isReady))
      )
    }
    await eventually('every workload is rolled out and ready', isSettled, { withinMs, everyMs: 500 })
  }
}

function secret(name: string, data: Readonly<Record<string, string>>): object {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: NAMESPACE }, stringData: data }
}
