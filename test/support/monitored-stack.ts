/**
 * The stack of an operator: five nodes, sidecars, an application, Prometheus with the rules, and clients that send requests, retry them, and are sometimes slow.
 */
import { Pool } from 'undici'
import { type CountingApplication, startCountingApplication } from './counting-application.ts'
import { startPostgres } from './postgres-server.ts'
import { startFencepost } from './processes.ts'
import { type PrometheusServer, startPrometheus } from './prometheus-server.ts'
import { type RedisServers, startRedisServers } from './redis-servers.ts'
import { type TestKit, testKit } from './saga-kit.ts'
import { startSagaServer } from './saga-server.ts'
import { between, type Sidecar, startSidecar } from './sidecar.ts'

/** The tables of the saga kit on a server of their own, and the gauges of `fencepost-saga serve` about them. */
export async function startSagaTables(): Promise<
  AsyncDisposable & { readonly kit: TestKit; readonly metrics: string }
> {
  await using stack = new AsyncDisposableStack()
  const postgres = stack.use(await startPostgres())
  const kit = await testKit(postgres)
  const { metrics } = stack.use(await startSagaServer(postgres.url, kit.schemaName))
  const owned = stack.move()
  return { kit, metrics, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

export type MonitoredStack = AsyncDisposable & {
  readonly servers: RedisServers
  readonly application: CountingApplication
  readonly sidecars: readonly Sidecar[]
  readonly prometheus: PrometheusServer
  /** Sends requests until it is disposed: `perSecond` a second, each identity `copies` times. */
  load(perSecond: number, copies: number): AsyncDisposable
}

export async function startMonitoredStack(
  rules: readonly string[],
  env: Readonly<Record<string, string>> = {},
  { probe: probed = false, sagas }: { readonly probe?: boolean; readonly sagas?: string } = {},
): Promise<MonitoredStack> {
  await using stack = new AsyncDisposableStack()
  const servers = stack.use(await startRedisServers(5, { appendOnly: true, maxMemory: '64mb' }))
  const application = stack.use(await startCountingApplication())
  const settings = { ...between(servers, application), FENCEPOST_LOG_LEVEL: 'info', ...env }
  const sidecars = await Promise.all([startSidecar(settings), startSidecar(settings)])
  for (const sidecar of sidecars) stack.use(sidecar)
  const jobs = [{ name: 'fencepost', targets: sidecars.map(({ admin }) => admin) }]
  if (sagas !== undefined) jobs.push({ name: 'fencepost-saga', targets: [sagas] })
  if (probed) {
    const probe = stack.use(
      startFencepost([
        'probe',
        ...['--quiet', '--rate', '10', '--prometheus', '127.0.0.1:0'],
        ...['--fingerprint', '--api', ...sidecars.map(({ api }) => api)],
      ]),
    )
    const [, address = ''] = await probe.line(/metrics on (\S+)\/metrics$/)
    jobs.push({ name: 'fencepost-probe', targets: [address] })
  }
  const prometheus = stack.use(await startPrometheus({ rules, jobs }))
  const owned = stack.move()
  return {
    servers,
    application,
    sidecars,
    prometheus,
    load: (perSecond, copies) => startMonitoredLoad(sidecars, perSecond, copies),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

let loads = 0

/** Open loop: requests are sent at their time, whether or not earlier ones were answered. */
export function startMonitoredLoad(
  sidecars: readonly Sidecar[],
  perSecond: number,
  copies: number,
): AsyncDisposable {
  loads += 1
  const run = loads
  const pools = sidecars.map(({ proxy }) => new Pool(proxy, { connections: 64 }))
  let sent = 0
  const send = async (): Promise<void> => {
    const pool = pools[sent % pools.length] as Pool
    const key = `load-${run}-${Math.floor(sent / copies)}`
    sent += 1
    try {
      const headers = { 'idempotency-key': key, 'content-type': 'application/json' }
      const response = await pool.request({ method: 'POST', path: '/payments', headers, body: `"${key}"` })
      await response.body.dump()
    } catch {
      // A broken connection is part of the incident.
    }
  }
  const timer = setInterval(() => {
    for (let i = 0; i < perSecond / 20; i += 1) void send()
  }, 50)
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer)
      await Promise.all(pools.map((pool) => pool.destroy()))
    },
  }
}
