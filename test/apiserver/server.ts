/**
 * An API server of Kubernetes on an etcd of its own, for one check: both on free ports of the loopback, ended with it.
 *
 * A cluster's other parts are missing: no scheduler, no kubelet, no controllers. Objects are validated, defaulted,
 * admitted and stored; Deployments make no pods, and no pod runs.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../support/free-port.ts'
import { TestProcess } from '../support/processes.ts'
import { findProgram, requireProgram } from '../support/programs.ts'
import type { Programs } from './programs.ts'

export type ApiServer = AsyncDisposable & {
  /** For KUBECONFIG. */
  readonly kubeconfig: string
  readonly kubectl: string
}

const STARTED_MS_MAX = 60_000

export async function startApiServer({ apiserver, etcd }: Programs): Promise<ApiServer> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-apiserver-'))
  const children: TestProcess[] = []
  const dispose = async () => {
    for (const child of children.reverse()) await child.end({ signal: 'SIGTERM' })
    await rm(folder, { recursive: true, force: true })
  }
  const start = (name: string, program: string, args: Readonly<Record<string, string>>) => {
    const flags = Object.entries(args).map(([flag, value]) => `--${flag}=${value}`)
    const child = new TestProcess(program, flags, { name, cwd: folder })
    children.push(child)
    return child
  }
  try {
    const [clients, peers, port] = [await freePort(), await freePort(), await freePort()]
    const store = `http://127.0.0.1:${clients}`
    const storing = start('etcd', etcd, {
      'data-dir': join(folder, 'etcd'),
      'listen-client-urls': store,
      'advertise-client-urls': store,
      'listen-peer-urls': `http://127.0.0.1:${peers}`,
      'initial-advertise-peer-urls': `http://127.0.0.1:${peers}`,
      'initial-cluster': `default=http://127.0.0.1:${peers}`,
      'unsafe-no-fsync': 'true',
    })
    await storing.http(`${store}/health`, 200, { withinMs: STARTED_MS_MAX })
    const token = randomBytes(16).toString('hex')
    await writeFile(join(folder, 'tokens.csv'), `${token},admin,admin,system:masters\n`)
    const key = join(folder, 'accounts.key')
    await promisify(execFile)(requireProgram('openssl'), ['genrsa', '-out', key, '2048'])
    const serving = start('kube-apiserver', apiserver, {
      'etcd-servers': store,
      'bind-address': '127.0.0.1',
      'advertise-address': '127.0.0.1',
      'secure-port': String(port),
      'cert-dir': join(folder, 'certificates'),
      'authorization-mode': 'RBAC',
      'token-auth-file': join(folder, 'tokens.csv'),
      'service-account-issuer': 'https://kubernetes.default.svc',
      'service-account-key-file': key,
      'service-account-signing-key-file': key,
      'service-cluster-ip-range': '10.96.0.0/16',
    })
    const kubeconfig = join(folder, 'kubeconfig')
    await writeFile(kubeconfig, access(port, join(folder, 'certificates', 'apiserver.crt'), token))
    const kubectl = findProgram({ programs: ['kubectl'] })
    if (kubectl === undefined)
      throw new Error('kubectl is not on this machine: install it, it applies the manifests.')
    await serving.until(
      'the API server is ready',
      () =>
        promisify(execFile)(kubectl, ['--kubeconfig', kubeconfig, 'get', '--raw', '/readyz']).then(
          ({ stdout }) => stdout === 'ok',
          () => false,
        ),
      { withinMs: STARTED_MS_MAX },
    )
    return { kubeconfig, kubectl, [Symbol.asyncDispose]: dispose }
  } catch (cause) {
    await dispose()
    throw cause
  }
}

function access(port: number, certificate: string, token: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'here',
        cluster: { server: `https://127.0.0.1:${port}`, 'certificate-authority': certificate },
      },
    ],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name: 'here', context: { cluster: 'here', user: 'admin' } }],
    'current-context': 'here',
  })
}
