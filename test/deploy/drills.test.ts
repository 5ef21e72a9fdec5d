/**
 * The lines for Kubernetes of docs/operations/drills.md, run as they stand with a `kubectl` that only writes down what it is asked:
 * each name in it is one of the shipped manifests, and each drill asks for what its name says. What a cluster then does shows `npm run test:cluster -- page-drills`.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { KUBERNETES_STEPS } from '../support/drills-page.ts'
import { folderOfTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { kustomized, type Manifest, manifestsIn } from '../support/kubernetes-objects.ts'

const root = join(import.meta.dirname, '../..')
const MACHINE = 'machine-of-the-node'

const folder = folderOfTests('drills')

let set: Manifest
let service: Manifest
beforeAll(async () => {
  const manifests = await kustomized(join(root, 'deploy/k8s/nodes'))
  set = manifests.find(({ kind }) => kind === 'StatefulSet')
  service = manifests.find(
    ({ kind, metadata }) => kind === 'Service' && metadata.name === set.spec.serviceName,
  )
  writeFileSync(
    join(folder, 'kubectl'),
    `#!/bin/sh\nfor word in "$@"; do printf '%s\\037' "$word"; done >>"$KUBECTL_LOG"; echo >>"$KUBECTL_LOG"\ncase "$*" in *spec.nodeName*) printf %s ${MACHINE};; esac\n`,
  )
  chmodSync(join(folder, 'kubectl'), 0o755)
}, FETCH_MS_MAX)

/** What the shell prints, and each call of kubectl, word by word. */
function run(lines: string) {
  const log = join(folder, 'calls')
  writeFileSync(log, '')
  const script = `${KUBERNETES_STEPS.map(({ commands }) => commands).join('')}\n${lines}\n`
  const printed = execFileSync('sh', ['-eu', '-c', script], {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: `${folder}:${process.env.PATH}`, KUBECTL_LOG: log },
  })
  const calls = readFileSync(log, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split('\u001f').slice(0, -1))
  return { printed: printed.trim(), calls }
}

const pods = () => Array.from({ length: set.spec.replicas }, (_, number) => `${set.metadata.name}-${number}`)
const claims = () =>
  set.spec.volumeClaimTemplates.flatMap(({ metadata }: Manifest) =>
    pods().map((pod) => `${metadata.name}-${pod}`),
  )

test('the lines for Kubernetes name nothing that the manifests do not have', () => {
  const { namespace } = set.metadata
  expect(pods()).toHaveLength(5)
  for (const number of [0, 1, 2, 3, 4]) {
    const { calls } = run(`node ${number} PING\ncrash ${number}\nempty ${number}\nstart ${number}`)
    expect(calls.map(([first]) => first)).toEqual([
      ...['-n', '-n', 'cordon', '-n', '-n', '-n', 'uncordon', '-n'],
    ])
    for (const [flag, of, verb, ...words] of calls.filter(([first]) => first === '-n')) {
      expect([flag, of]).toEqual(['-n', namespace])
      const named = words.filter((word) => word.includes(set.metadata.name))
      const known = words.includes('pvc') ? claims() : pods()
      expect([verb, named.length, named.filter((name) => !known.includes(name))]).toEqual([verb, 1, []])
      expect(named[0]).toMatch(new RegExp(`-${number}$`))
    }
  }
})

test('a command for a node runs in the container of the nodes, which needs neither password nor port for it', () => {
  const [first] = set.spec.template.spec.containers
  const { calls } = run('node 4 REPLICAOF $(address 0)')
  const [host] = [`${pods()[0]}.${set.spec.serviceName}.${set.metadata.namespace}.svc`]
  expect(calls).toEqual([
    ['-n', set.metadata.namespace, 'exec', pods()[4], '--', 'valkey-cli', 'REPLICAOF', host, '6379'],
  ])
  // kubectl takes the first container, and valkey-cli port 6379 without TLS.
  expect(first.image).toContain('valkey')
  expect(first.ports[0].containerPort).toBe(6379)
  expect(first.command).toEqual(['valkey-server', '/etc/valkey/valkey.conf'])
  expect(readFileSync(join(root, 'deploy/k8s/nodes/valkey.conf'), 'utf8')).not.toMatch(
    /^(tls-|aclfile|requirepass)/m,
  )
  // Names of pods resolve before they are ready.
  expect(service.spec).toMatchObject({ clusterIP: 'None', publishNotReadyAddresses: true })
  expect(service.spec.ports.map(({ port }: Manifest) => port)).toContain(6379)
})

// Asked for at each call, a password would stop every loop of the page; as an argument it would be in the node's list of processes.
test('on nodes with users a command logs in by standard input', () => {
  const page = readFileSync(join(root, 'docs/operations/drills.md'), 'utf8')
  const [, forUsers = ''] = /^```\n(node\(\) \{\n.*?)^```$/ms.exec(page) ?? []
  const inPod = mkdtempSync(join(folder, 'pod-'))
  const program = (name: string, text: string) => {
    writeFileSync(join(inPod, name), `#!/bin/sh\n${text}\n`)
    chmodSync(join(inPod, name), 0o755)
  }
  // What kubectl is asked to run, here; and what the node's own program gets.
  program('kubectl', `echo "kubectl $*" >&2; while [ "$1" != -- ]; do shift; done; shift; exec "$@"`)
  program('valkey-cli', `printf '%s\\n' "$REDISCLI_AUTH" "$@"`)
  const { stdout, stderr } = spawnSync('sh', ['-eu', '-c', `${forUsers}\nnode 4 INFO replication`], {
    encoding: 'utf8',
    env: { PATH: `${inPod}:${process.env.PATH}`, OPERATOR_PASSWORD: 'a b\\c' },
  })
  const options = ['--tls', '--cacert', '/etc/valkey-tls/ca.crt', '--user', 'operator']
  expect(stdout.trimEnd().split('\n')).toEqual(['a b\\c', ...options, 'INFO', 'replication'])
  expect(stderr).toMatch(/^kubectl -n fencepost exec -i fencepost-redis-4 -- sh /)
  expect(stderr).not.toContain('a b')
  expect(readFileSync(join(root, 'deploy/k8s/nodes-tls-acl/users.acl.example'), 'utf8')).toMatch(
    /^user operator on .*\+ping \+info /m,
  )
})

test('a crash takes the machine away before the pod; a start gives back that machine, and waits for the node', () => {
  const { calls } = run('crash 3\nstart 3')
  const words = calls.map((call) => call.join(' '))
  expect(words).toEqual([
    `-n fencepost get pod ${pods()[3]} -o jsonpath={.spec.nodeName}`,
    `cordon ${MACHINE}`,
    `-n fencepost delete pod ${pods()[3]} --grace-period=0 --force`,
    `uncordon ${MACHINE}`,
    // A pod takes seconds to come: a drill that looked at once would see the node down.
    `-n fencepost exec ${pods()[3]} -- valkey-cli PING`,
  ])
})

// A pod that was just deleted is not always back: an error would end the shell in the middle of a drill.
test('an emptied node loses its claim, and the pod where there is one', () => {
  expect(run('empty 3').calls.map((call) => call.join(' '))).toEqual([
    `-n fencepost delete pvc data-${pods()[3]} --wait=false`,
    `-n fencepost delete pod ${pods()[3]} --grace-period=0 --force --ignore-not-found`,
  ])
})

test('commands of fencepost run the program of the image, in the container that the sidecar has', () => {
  const { calls } = run('$FENCEPOST nodes status')
  const [, entry = ''] = /^ENTRYPOINT (\[.*\])$/m.exec(readFileSync(join(root, 'Dockerfile'), 'utf8')) ?? []
  expect(calls).toEqual([
    ['exec', 'POD', '--container', 'fencepost', '--', ...(JSON.parse(entry) as string[]), 'nodes', 'status'],
  ])
  const [sidecar] = manifestsIn(readFileSync(join(root, 'deploy/k8s/sidecar/sidecar.yaml'), 'utf8'))
  const names = sidecar.spec.template.spec.initContainers.map(({ name }: Manifest) => name)
  expect(names).toEqual(['fencepost'])
})
