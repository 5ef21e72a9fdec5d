/** The control plane of the cluster on its machine: etcd, the API server, controllers and the scheduler. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type KubernetesProgram, kubernetesProgram } from '../apiserver/programs.ts'
import { requireProgram } from '../support/programs.ts'
import type { Machine } from './machine.ts'
import { clusterProgram } from './requirements.ts'

const READY_MS_MAX = 300_000

/** @returns the kubeconfig of its administrator */
export async function startControlPlane(machine: Machine): Promise<string> {
  const folder = join(machine.folder, 'control-plane')
  await mkdir(folder)
  const start = async (name: KubernetesProgram, flags: Readonly<Record<string, string>>) =>
    machine.start(
      await kubernetesProgram(name),
      Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`),
      { name, cwd: folder },
    )
  const token = randomBytes(16).toString('hex')
  await writeFile(join(folder, 'tokens.csv'), `${token},admin,admin,system:masters\n`)
  const key = join(folder, 'accounts.key')
  await promisify(execFile)(requireProgram('openssl'), ['genrsa', '-out', key, '2048'])
  await start('etcd', {
    'data-dir': join(folder, 'etcd'),
    'listen-client-urls': 'http://127.0.0.1:2379',
    'advertise-client-urls': 'http://127.0.0.1:2379',
    'listen-peer-urls': 'http://127.0.0.1:2380',
    'initial-advertise-peer-urls': 'http://127.0.0.1:2380',
    'initial-cluster': 'default=http://127.0.0.1:2380',
    'unsafe-no-fsync': 'true',
  })
  const certificate = join(folder, 'certificates', 'apiserver.crt')
  const serving = await start('kube-apiserver', {
    'etcd-servers': 'http://127.0.0.1:2379',
    'bind-address': '0.0.0.0',
    'advertise-address': machine.address,
    'secure-port': '6443',
    'cert-dir': join(folder, 'certificates'),
    'authorization-mode': 'Node,RBAC',
    'token-auth-file': join(folder, 'tokens.csv'),
    'service-account-issuer': 'https://kubernetes.default.svc',
    'service-account-key-file': key,
    'service-account-signing-key-file': key,
    'service-cluster-ip-range': '10.96.0.0/16',
    'kubelet-preferred-address-types': 'InternalIP',
  })
  const kubeconfig = join(folder, 'kubeconfig')
  await writeFile(kubeconfig, access(machine.address, certificate, token))
  const [nsenter, ...inside] = machine.inNetwork
  const ready = [...inside, clusterProgram('kubectl'), '--kubeconfig', kubeconfig, 'get', '--raw', '/readyz']
  await serving.until(
    'the API server is ready',
    () =>
      promisify(execFile)(nsenter, ready).then(
        ({ stdout }) => stdout === 'ok',
        () => false,
      ),
    { withinMs: READY_MS_MAX, everyMs: 250 },
  )
  const own = { kubeconfig, 'leader-elect': 'false', 'bind-address': '127.0.0.1' }
  await start('kube-controller-manager', {
    ...own,
    'service-account-private-key-file': key,
    'root-ca-file': certificate,
    'node-monitor-grace-period': '20s',
  })
  await start('kube-scheduler', own)
  return kubeconfig
}

function access(address: string, certificate: string, token: string): string {
  const cluster = { server: `https://${address}:6443`, 'certificate-authority': certificate }
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'here', cluster }],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name: 'here', context: { cluster: 'here', user: 'admin' } }],
    'current-context': 'here',
  })
}
