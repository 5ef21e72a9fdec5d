/**
 * The composition root: builds every part of the sidecar in the order of their dependency, and takes it down again.
 *
 * The only file that sees two adapters, with what it composes in `app/`. It decides nothing about requests.
 */

import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { DestinationStream } from 'pino'
import { nodeNamesOf, openNodes } from './app/cluster.ts'
import { type Coordination, openCoordinations, writeTrail } from './app/coordination.ts'
import { openEnvoy } from './app/envoy.ts'
import { openGateway } from './app/gateway.ts'
import { listenerLimits } from './app/listener-limits.ts'
import { openQuorums } from './app/quorums.ts'
import { openReservationApi } from './app/reservation-api.ts'
import { openSagas } from './app/sagas.ts'
import { scopeRules } from './app/scope-rules.ts'
import { openSecrets, type Secrets } from './app/secrets.ts'
import { openTelemetry, type Watched } from './app/telemetry.ts'
import { warmUp } from './app/warm-up.ts'
import type { ListenAddress } from './config/addresses.ts'
import type { Config } from './config/load.ts'
import type { ReadFile } from './config/value.ts'
import { createBackground } from './core/background.ts'
import { shareLeases } from './core/claims/shared-leases.ts'
import { createTurns } from './core/claims/turns.ts'
import { faultOf } from './core/fault.ts'
import { createTenantQuotas } from './core/request/tenant-quotas.ts'
import { majorityOf } from './core/units.ts'
import { createAdminServer } from './http/admin/server.ts'
import { createProxy, type ProxyOptions, type ProxyPorts } from './http/proxy/server.ts'
import { systemClock } from './system/clock.ts'
import { systemRandom } from './system/random.ts'
import { createApplication } from './upstream/application.ts'

export type AppEnvironment = {
  readonly version: string
  readonly nodeVersion: string
  readonly hostname: string
  readonly logTo: DestinationStream
  readonly readFile: ReadFile
  /** In traces; `OTEL_SERVICE_NAME`. */
  readonly serviceName?: string | undefined
  /** What watches, instead of log, metrics, traces and readiness: for measuring what those cost. */
  readonly openTelemetry?: typeof openTelemetry
}

export interface App extends AsyncDisposable {
  /** Where it really listens, ports resolved; absent where a listener is off. */
  readonly addresses: Readonly<Addresses>
  /** Refuses new work and waits for what is under way, at most `limits.drain`. */
  drain(): Promise<void>
  /** Of embedded nodes only: for the demonstration and for tests. */
  stopEmbeddedNode(index: number): void
}

type Addresses = { proxy?: string; api?: string; gateway?: string; gatewayGrpc?: string; admin?: string }

/** The sidecar must not run like this: the message says what to change. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused'
}

/** @throws StartRefused where the nodes are not what they must be, or a listener can't be opened */
export async function createApp(config: Config, environment: AppEnvironment): Promise<App> {
  const clock = systemClock
  const random = systemRandom
  const instance = config.instance ?? environment.hostname
  const nodeNames = nodeNamesOf(config)
  // Groups are all of one size.
  const nodeCount = nodeNames[0]?.length ?? 0
  const required = majorityOf(nodeCount)
  const telemetry = await (environment.openTelemetry ?? openTelemetry)(config, {
    ...environment,
    instance,
    clock,
    random,
    nodeNames: nodeNames.flat(),
    nodeCount,
    required,
  })
  const { log, events } = telemetry
  const secrets = secretsOf(config, environment.readFile, log)

  const nodes = await openNodes(config, clock, random, events)
  if (nodes.refused.length > 0) {
    await nodes[Symbol.asyncDispose]()
    throw new StartRefused(`these nodes can't vote:\n  ${nodes.refused.join('\n  ')}`)
  }
  await Promise.all(nodes.groups.map((group) => warmUp(group.nodes, clock, random)))
  const { tracedNode } = telemetry
  const quorums = openQuorums(config, nodes, { clock, random, events, tracedNode, required })
  const { outcomeCacheBytes: outcomeBytesMax } = config
  const leases = shareLeases({ leases: quorums.leases, clock, events, outcomeBytesMax })
  const background = createBackground(LATE_OFFERS_MAX, (err) =>
    log.error({ err }, 'work in the background failed'),
  )
  const onFailure: ProxyPorts['onFailure'] = (err, problemInstance) =>
    log.error({ fault: faultOf(err), problem_instance: problemInstance }, 'a request failed in the sidecar')
  const quotas = createTenantQuotas(
    { inFlightMax: config.tenantInFlight, newRecordsPerSecondMax: config.tenantNewRecords },
    clock,
  )
  const core = { leases, quotas, clock, random, events, tracing: telemetry.tracing }
  if (quorums.trail !== undefined) {
    telemetry.tell(writeTrail(quorums.trail, clock, (err) => log.warn({ err }, 'the trail was not written')))
  }
  const carryingOut = {
    ...core,
    whenEnded: leases.whenEnded,
    localLeases: quorums.local,
    turns: createTurns({ lines: quorums.lines, clock, random }),
    background,
  }
  const proxied = openProxy(config, carryingOut, secrets, onFailure)
  const sagas = openSagas(config, clock, (err) =>
    log.warn({ err }, 'the database of the sagas did not answer'),
  )
  const answering = sagas === undefined ? core : { ...core, sagas: sagas.desk }
  const api = openReservationApi(config, environment.version, answering, secrets, onFailure)
  const gateway = openGateway(config, core, secrets, onFailure)
  const envoy = await openEnvoy(config, carryingOut, secrets, onFailure)

  let phase: Watched['phase'] = 'starting'
  let coordination: Coordination | undefined
  const watched = () => ({
    phase,
    nodes: nodes.views(),
    agreed: nodes.agreed(),
    standstills: nodes.standstills(),
    inFlight: (proxied?.inFlight() ?? 0) + (envoy?.inFlight() ?? 0),
    leasesReserved: api?.held() ?? 0,
    writeBackPending: quorums.writeBackPending(),
    sweeping: coordination?.sweeping(),
    vitals: coordination?.vitals(),
    sagas: sagas?.standing(),
  })
  const admin = createAdminServer({
    readiness: () => telemetry.readiness(watched()),
    started: () => phase !== 'starting',
    scrape: (accept) => telemetry.scrape(watched(), accept),
    tls: secrets.tls('admin'),
  })

  const addresses: Addresses = {}
  const app: App = {
    addresses,
    drain: async () => {
      phase = 'draining'
      log.info('draining: new work is refused, work under way is finished')
      const untilMonoMs = clock.monoMs() + config.drainTimeoutMs
      // What is reserved goes on being extended and completed while the proxy finishes its requests, and the sweeper may be
      // waiting for the application.
      await Promise.all([
        coordination?.[Symbol.asyncDispose](),
        ...[proxied, api, gateway, envoy].map((one) => one?.close(config.drainTimeoutMs)),
      ])
      await within(background.drained(), untilMonoMs - clock.monoMs())
    },
    stopEmbeddedNode: (index) => nodes.stopEmbedded(index),
    [Symbol.asyncDispose]: async () => {
      await coordination?.[Symbol.asyncDispose]()
      await Promise.all([proxied, api, gateway, envoy].map((one) => one?.close(0)))
      await admin.close()
      quorums[Symbol.dispose]()
      await telemetry[Symbol.asyncDispose]()
      secrets[Symbol.dispose]()
      await nodes[Symbol.asyncDispose]()
      await sagas?.[Symbol.asyncDispose]()
    },
  }

  try {
    const adminAddress = await listen('admin', admin, config.adminListen)
    if (adminAddress !== undefined) addresses.admin = adminAddress
    const apiAddress = await (api && opened('api', () => api.listen()))
    if (apiAddress !== undefined) addresses.api = apiAddress
    const gatewayAddress = await (gateway && opened('gateway', () => gateway.listen()))
    if (gatewayAddress !== undefined) addresses.gateway = gatewayAddress
    const envoyAddress = await (envoy && opened('gateway gRPC', () => envoy.listen()))
    if (envoyAddress !== undefined) addresses.gatewayGrpc = envoyAddress
    const proxyAddress = await proxied?.listen()
    if (proxyAddress !== undefined) addresses.proxy = proxyAddress
    coordination = openCoordinations(config, quorums.offices, {
      ...core,
      application: proxied?.application,
      onFailure: (err) => log.warn({ err }, 'coordination stumbled'),
    })
    phase = 'serving'
    telemetry.start(quorums.probed)
    log.info(
      { addresses, nodes: nodes.views(), quorum_nodes: `${required}/${nodeCount}` },
      'fencepost is serving',
    )
  } catch (cause) {
    // A port that is taken: what is open already would keep the process, which serves nothing.
    await app[Symbol.asyncDispose]()
    throw cause
  }
  return app
}

/** Outcomes that are still offered to the quorum after their clients were answered; beyond, they are given up. */
export const LATE_OFFERS_MAX = 1_000

/** Waits, but not longer than there is time for. This timer does keep the process alive. */
async function within(work: Promise<void>, limitMs: number): Promise<void> {
  const ended = new AbortController()
  const overdue = setTimeout(Math.max(0, limitMs), undefined, { signal: ended.signal }).catch(() => {})
  await Promise.race([work, overdue])
  ended.abort()
}

/** The proxy and the application behind it, or undefined where the proxy is off. */
function openProxy(
  config: Config,
  core: Pick<
    ProxyPorts,
    | 'leases'
    | 'whenEnded'
    | 'localLeases'
    | 'turns'
    | 'quotas'
    | 'background'
    | 'clock'
    | 'random'
    | 'events'
    | 'tracing'
  >,
  secrets: Secrets,
  onFailure: ProxyPorts['onFailure'],
) {
  const at = config.proxyListen
  if (at.kind === 'off' || config.upstream === undefined) return undefined
  const application = createApplication({
    address: config.upstream,
    connectTimeoutMs: config.upstreamConnectTimeoutMs,
    bodyIdleMs: config.upstreamBodyTimeoutMs,
    connectionsMax: config.upstreamConnections,
    keepAliveMs: config.upstreamKeepAliveMs,
    clock: core.clock,
  })
  const proxy = createProxy(proxyOptions(config, secrets), {
    ...core,
    application,
    newInstance: () => randomUUID(),
    onFailure,
  })
  let closed: Promise<void> | undefined
  return {
    application,
    listen: () => opened('proxy', () => proxy.listen(at)),
    inFlight: () => proxy.inFlight(),
    close: (graceMs: number) => {
      closed ??= proxy.close(graceMs).then(() => application[Symbol.asyncDispose]())
      return closed
    },
  }
}

function proxyOptions(config: Config, secrets: Secrets): ProxyOptions {
  const tls = secrets.tls('proxy')
  return {
    routes: config.routes,
    scope: scopeRules(config),
    trustedPeers: config.trustedPeers,
    ...(tls === undefined ? {} : { tls }),
    forwarded: config.forwardedHeaders,
    settleBudgetMs: config.settleBudgetMs,
    renewFraction: config.renewFraction,
    rawKeys: config.logRawKeys,
    upstreamTimeoutMs: config.upstreamTimeoutMs,
    limits: {
      inFlightMax: config.maxInFlight,
      headerLinesMax: config.headerLinesMax,
      ...listenerLimits(config),
    },
  }
}

function secretsOf(config: Config, readFile: ReadFile, log: Parameters<typeof openSecrets>[3]): Secrets {
  try {
    return openSecrets(config, readFile, systemClock, log)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new StartRefused(`certificate and key can't be used together: ${why}`, { cause })
  }
}

async function listen(
  name: string,
  server: FastifyInstance,
  address: ListenAddress,
): Promise<string | undefined> {
  if (address.kind === 'off') return undefined
  const { kind: _, ...where } = address
  return opened(name, () => server.listen(where))
}

async function opened(name: string, open: () => Promise<string>): Promise<string> {
  try {
    return await open()
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new StartRefused(`the ${name} listener could not be opened: ${why}`, { cause })
  }
}
