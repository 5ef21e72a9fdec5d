/**
 * Dapr's lock API with one Redis, where the environment's `DAPRD` names a daprd. One that has the lock, which Dapr's own build of
 * stable components has not, is made by (half an hour on two cores):
 *
 *     cp -r bench/peers/daprd /tmp/daprd && cd /tmp/daprd
 *     go mod init daprd && go get github.com/dapr/dapr/cmd/daprd@v1.14.0 && go build -tags stablecomponents -o daprd .
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../test/support/free-port.ts'
import { TestProcess } from '../../test/support/processes.ts'

export type Dapr = AsyncDisposable & { readonly url: string; readonly pid: number }

export async function startDapr(redisUrl: string): Promise<Dapr | undefined> {
  const program = process.env.DAPRD
  if (program === undefined) {
    console.log('left out: Dapr, because DAPRD names no daprd (bench/support/dapr.ts says how to build one)')
    return undefined
  }
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-dapr-'))
  await writeFile(
    join(folder, 'lock.yaml'),
    `apiVersion: dapr.io/v1alpha1
kind: Component
metadata: { name: locks }
spec:
  type: lock.redis
  version: v1
  metadata:
    - { name: redisHost, value: "${new URL(redisUrl).host}" }
    - { name: redisPassword, value: "" }
`,
  )
  const [port, grpc, internal, metrics] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ]
  const child = new TestProcess(
    program,
    // biome-ignore format: an option and its value
    ['--app-id', 'bench', '--mode', 'standalone', '--log-level', 'warn', '--resources-path', folder,
     '--dapr-http-port', String(port), '--dapr-grpc-port', String(grpc), '--dapr-internal-grpc-port', String(internal),
     '--metrics-port', String(metrics), '--placement-host-address', '', '--scheduler-host-address', ''],
    { name: 'daprd' },
  )
  const url = `http://127.0.0.1:${port}`
  await child.http(`${url}/v1.0/healthz/outbound`, 204, { withinMs: 60_000 })
  return {
    url,
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      await child[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
