/** The manifests of deploy/k8s as built: valid, restricted, with the promised nodes and order of containers. */
import { readFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { FETCH_MS_MAX, fetchProgram } from '../support/fetched-programs.ts'
import {
  KUBERNETES_VERSIONS,
  kustomized,
  type Manifest,
  podOf,
  restrictedFaults,
  schemaFaults,
} from '../support/kubernetes-objects.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const folder = join(import.meta.dirname, '../../deploy/k8s')
const BUILDS = ['nodes', 'nodes-tls-acl', 'example'] as const
const built: Record<string, Manifest[]> = {}

beforeAll(async () => {
  await fetchProgram('kubernetesSchemas')
  for (const name of BUILDS) built[name] = await kustomized(join(folder, name))
}, FETCH_MS_MAX)

function command(url: string, commands: string): Promise<string> {
  const { hostname: host, port } = new URL(url)
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = createConnection({ host, port: Number(port) }, () => socket.write(`${commands}QUIT\r\n`))
    socket.setEncoding('utf8').on('data', (text) => {
      answer += text
    })
    socket.once('error', reject).once('close', () => resolve(answer))
  })
}

const one = (build: (typeof BUILDS)[number], kind: string): Manifest => {
  const found = built[build]!.filter((manifest) => manifest.kind === kind)
  expect(found).toHaveLength(1)
  return found[0]
}

describe.each(BUILDS)('%s', (name) => {
  test.each(KUBERNETES_VERSIONS)('is what an API server of %s takes', async (version) => {
    expect(await schemaFaults(built[name]!, version)).toEqual([])
  })

  test('pods keep to the Pod Security Standard "restricted", in a namespace that enforces it', () => {
    expect(built[name]!.flatMap(restrictedFaults)).toEqual([])
    const namespaces = built[name]!.filter(({ kind }) => kind === 'Namespace')
    expect(namespaces.map(({ metadata }) => metadata.labels['pod-security.kubernetes.io/enforce'])).toEqual([
      'restricted',
    ])
  })

  test('no pod gets a token of the API server or the variables of Services, and each has a limit of memory', () => {
    for (const pod of built[name]!.map(podOf).filter((spec) => spec !== undefined)) {
      expect([pod.automountServiceAccountToken, pod.enableServiceLinks]).toEqual([false, false])
      for (const container of [...(pod.initContainers ?? []), ...pod.containers])
        expect([container.name, typeof container.resources?.limits?.memory]).toEqual([
          container.name,
          'string',
        ])
    }
  })
})

describe.each(['nodes', 'nodes-tls-acl'] as const)('the nodes of %s', (build) => {
  test('the nodes are five, with a volume each, no two on one machine, spread over zones', () => {
    const { spec } = one(build, 'StatefulSet')
    expect([spec.replicas, spec.podManagementPolicy]).toEqual([5, 'Parallel'])
    expect(spec.volumeClaimTemplates).toHaveLength(1)
    const [rule] = spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
    expect(rule).toMatchObject({ topologyKey: 'kubernetes.io/hostname', labelSelector: spec.selector })
    expect(spec.template.spec.topologySpreadConstraints[0]).toMatchObject({
      topologyKey: 'topology.kubernetes.io/zone',
      maxSkew: 1,
    })
  })

  test('the nodes are replaced one at a time, each when the last one votes', () => {
    expect(one(build, 'PodDisruptionBudget').spec).toMatchObject({
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    })
    const { spec } = one(build, 'StatefulSet')
    expect(spec.updateStrategy).toEqual({ type: 'RollingUpdate' })
    const [node] = podOf({ kind: 'StatefulSet', spec }).containers
    expect(node.readinessProbe.exec.command.slice(0, 2)).toEqual(['sh', '/etc/valkey/votes.sh'])
    expect(one(build, 'ConfigMap').data['votes.sh']).toBe(
      readFileSync(join(folder, 'nodes/votes.sh'), 'utf8'),
    )
    // A node that does not vote is not restarted for that.
    expect([Object.keys(node.startupProbe), Object.keys(node.livenessProbe)].flat()).not.toContain('exec')
  })

  test('a new cluster comes up at once: its nodes start together and are found before they are ready', () => {
    expect(one(build, 'StatefulSet').spec.podManagementPolicy).toBe('Parallel')
    expect(one(build, 'Service').spec.publishNotReadyAddresses).toBe(true)
  })

  test('the nodes never evict, sync every write, and stay below the memory of their container', () => {
    const text: string = one(build, 'ConfigMap').data['valkey.conf']
    for (const line of [
      'maxmemory-policy noeviction',
      'appendonly yes',
      'appendfsync always',
      'maxmemory 512mb',
      // Without it LATENCY LATEST, which a runbook asks for, is always empty.
      'latency-monitor-threshold 10',
    ])
      expect(text.split('\n')).toContain(line)
    expect(text).not.toMatch(/^(cluster-enabled|replicaof)/m)
    expect(podOf(one(build, 'StatefulSet')).containers[0].resources.limits.memory).toBe('1Gi')
  })

  test('only clients labelled for fencepost reach the nodes', () => {
    const { spec } = one(build, 'NetworkPolicy')
    expect(spec.ingress).toEqual([
      {
        from: [{ namespaceSelector: {}, podSelector: { matchLabels: { 'fencepost.dev/client': 'true' } } }],
        ports: [{ protocol: 'TCP', port: 'redis' }],
      },
    ])
    expect(podOf(one('example', 'Deployment'))).toBeDefined()
    expect(one('example', 'Deployment').spec.template.metadata.labels['fencepost.dev/client']).toBe('true')
  })
})

test('the checks find what they look for', async () => {
  const set = structuredClone(one('nodes', 'StatefulSet'))
  set.spec.replica = 5
  set.spec.template.spec.containers[0].securityContext.allowPrivilegeEscalation = true
  expect((await schemaFaults([set], 'v1.37.0')).join()).toContain('replica')
  expect(restrictedFaults(set)).toEqual([
    'StatefulSet/fencepost-redis redis: allowPrivilegeEscalation is not false',
  ])
})

test('a real server accepts the configuration of the nodes, and fencepost accepts it as a node', async () => {
  await using server = await startRedisServers(1, {
    config: one('nodes', 'ConfigMap')
      .data['valkey.conf'].split('\n')
      .filter((line: string) => !/^(port|bind|dir) /.test(line)),
  })
  const said = await command(
    server.urls[0]!,
    'CONFIG GET maxmemory-policy\r\nCONFIG GET appendfsync\r\nCONFIG GET maxmemory\r\nCONFIG GET latency-monitor-threshold\r\n',
  )
  for (const value of ['noeviction', 'always', String(512 * 1024 * 1024), '\r\n10\r\n'])
    expect(said).toContain(value)
})

test('with TLS the nodes speak TLS alone, and accept only users of their list', () => {
  const text: string = one('nodes-tls-acl', 'ConfigMap').data['valkey.conf']
  for (const line of [
    'port 0',
    'tls-port 6379',
    'tls-protocols "TLSv1.2 TLSv1.3"',
    'aclfile /etc/valkey-users/users.acl',
  ])
    expect(text.split('\n')).toContain(line)
  const mounts = podOf(one('nodes-tls-acl', 'StatefulSet')).containers[0].volumeMounts
  expect(mounts.map(({ mountPath }: { mountPath: string }) => mountPath)).toEqual([
    '/data',
    '/etc/valkey',
    '/etc/valkey-tls',
    '/etc/valkey-users',
    '/etc/valkey-login',
  ])
})

/** It runs while the application still works, so it may only send clients away: it ends nothing. */
const LEAVES = {
  preStop: { exec: { command: ['/nodejs/bin/node', '--eval', "process.kill(1, 'SIGUSR2')"] } },
}

describe('the example', () => {
  test('fencepost starts before the application and ends after it: a native sidecar, whose hook ends nothing', () => {
    const pod = podOf(one('example', 'Deployment'))
    const [sidecar] = pod.initContainers
    expect(sidecar).toMatchObject({ name: 'fencepost', restartPolicy: 'Always' })
    expect(sidecar.lifecycle).toEqual(LEAVES)
    expect([
      sidecar.startupProbe.httpGet.path,
      sidecar.readinessProbe.httpGet.path,
      sidecar.livenessProbe.httpGet.path,
    ]).toEqual(['/startupz', '/readyz', '/livez'])
    expect(sidecar.resources.limits.cpu).toBeUndefined()
  })

  test('the grace period covers the hook and the drain', () => {
    const loaded = loadConfig({ FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_PROXY_LISTEN: 'off' }, () => '')
    if (loaded.kind !== 'ok') throw new Error('the default configuration is refused')
    const pod = podOf(one('example', 'Deployment'))
    const hookMs = pod.containers[0].lifecycle.preStop.sleep.seconds * 1_000
    expect(pod.terminationGracePeriodSeconds * 1_000).toBeGreaterThan(
      loaded.config.drainTimeoutMs + hookMs + 5_000,
    )
  })

  test('the settings of the example are accepted by fencepost, and name the nodes of the other build', () => {
    const loaded = loadConfig(one('example', 'ConfigMap').data, () => '')
    if (loaded.kind !== 'ok') throw new Error(JSON.stringify(loaded.errors))
    const { redisNodes } = loaded.config
    if (redisNodes.kind !== 'remote') throw new Error('the nodes are embedded')
    const { replicas, serviceName } = one('nodes', 'StatefulSet').spec
    expect(redisNodes.groups[0]?.nodes.map(({ host }) => host)).toEqual(
      Array.from({ length: replicas }, (_, index) => `fencepost-redis-${index}.${serviceName}.fencepost.svc`),
    )
  })

  test('the Service of the example leads to fencepost, and never around it', () => {
    const [{ targetPort }] = one('example', 'Service').spec.ports
    const pod = podOf(one('example', 'Deployment'))
    expect(pod.initContainers[0].ports).toContainEqual({ name: 'fencepost', containerPort: targetPort })
    expect(pod.containers[0].ports).toBeUndefined()
  })
})
