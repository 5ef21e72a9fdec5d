/**
 * The composition root, in the order of its phases: builds every part of the sidecar, opens its listeners, drains, and
 * disposes of it.
 *
 * Together with `app/` the only place that sees two adapters. It decides nothing about requests.
 */

import { setTimeout } from 'node:timers/promises'
import { openClientIdentification } from './app/client-identification.ts'
import { nodeNamesOf, type OpenNodes, openNodes, warmUp } from './app/cluster.ts'
import { appendAudit, type Coordination, openCoordinations } from './app/coordination.ts'
import { bodyMemoryBytes } from './app/listener-limits.ts'
import { type ListenerAddresses, type Listeners, opened, openListeners } from './app/listeners.ts'
import { openSecrets, type Secrets } from './app/secrets.ts'
import { openStack, type StackPorts } from './app/stack.ts'
import { StartRefused } from './app/start-refused.ts'
import {
  openTelemetry,
  overviewFacts,
  requestsSeen,
  type Telemetry,
  type TelemetryEnvironment,
  type Watched,
} from './app/telemetry.ts'
import { youngGenerationGrows } from './app/young-generation.ts'
import { hintsFor } from './config/hints.ts'
import type { Config } from './config/load.ts'
import type { ReadFile } from './config/value.ts'
import { createBackground } from './core/background.ts'
import { createFairQueue } from './core/claims/fair-queue.ts'
import { reportingUntaken } from './core/coordination/audit-log.ts'
import { faultOf } from './core/fault.ts'
import { createNearMisses } from './core/request/near-misses.ts'
import { createTenantQuotas } from './core/request/tenant-quotas.ts'
import { majorityOf } from './core/units.ts'
import { createAdminServer } from './http/admin/server.ts'
import { createBodyMemory } from './http/server/body-memory.ts'
import type { NamingVariables } from './observe/tracing.ts'
import { systemClock as clock, systemRandom as random } from './system/clock.ts'

const LOSSY =
  'the nodes may lack their last second where they are killed (`appendfsync` is not `always`, or they do not say): where more than a minority is at once, the cluster stays closed until an operator declares a loss. See docs/operations/nodes.md, "Nodes that are started again with their data"'

export type AppEnvironment = {
  readonly hostname: string
  readonly readFile: ReadFile
  /** Of the container; undefined if it has none. */
  readonly memoryLimitBytes?: number | undefined
  /** Replaces log, metrics, traces and readiness, to measure what they cost. */
  readonly openTelemetry?: typeof openTelemetry
} & NamingVariables &
  Pick<TelemetryEnvironment, 'version' | 'nodeVersion' | 'logTo' | 'leaveOpen'>

export interface App extends AsyncDisposable {
  /** The actual addresses, ports resolved; absent for a listener that is off. */
  readonly addresses: Readonly<ListenerAddresses & { admin?: string }>
  /**
   * Its pod is about to end, and its application before it: clients with open connections are sent to another pod, by answers that
   * end them. Work is taken until the drain.
   */
  leave(): void
  /** Refuses new work and waits for requests in flight, at most `limits.drain`. */
  drain(): Promise<void>
  /** Embedded nodes only: for the demonstration and for tests. */
  stopEmbeddedNode(index: number): void
}

/** @throws StartRefused if a node must not be used or a listener can't be opened */
export async function createApp(config: Config, environment: AppEnvironment): Promise<App> {
  const state: State = { phase: 'starting', coordination: undefined }
  const parts = await build(config, environment, state)
  const admin = adminOf(parts, state)
  const dispose = async () => {
    await state.coordination?.[Symbol.asyncDispose]()
    await parts.listeners.close(0)
    await admin.close()
    await parts[Symbol.asyncDispose]()
  }
  let addresses: App['addresses']
  try {
    addresses = await listen(config, admin, parts)
    state.coordination = coordinate(config, parts)
  } catch (cause) {
    // A port is taken: the listeners that are open already would keep alive a process that serves nothing.
    await dispose()
    throw cause
  }
  state.phase = 'serving'
  const { required } = parts.size
  parts.log.info({ addresses, nodes: parts.nodes.views(), required }, 'fencepost is serving')
  const lossy = parts.nodes.lossyNodes()
  if (lossy.length > 0) parts.log.warn({ nodes: lossy }, LOSSY)
  parts.telemetry.start(parts.stack.probed, () => watchedIn(parts, state))
  return {
    addresses,
    leave: () => leave(parts, state),
    drain: () => drain(config, parts, state),
    stopEmbeddedNode: (index) => parts.nodes.stopEmbedded(index),
    [Symbol.asyncDispose]: dispose,
  }
}

/** What changes while the sidecar runs. */
type State = { phase: Watched['phase']; coordination: Coordination | undefined }

type Parts = Awaited<ReturnType<typeof build>>

/** Outcomes that are still being recorded after their clients were answered; any beyond are given up. */
export const LATE_OFFERS_MAX = 1_000

/** Builds every part in order of dependency. Nothing listens yet. */
async function build(config: Config, environment: AppEnvironment, state: State) {
  const size = sizeOf(config)
  const instance = config.instance ?? environment.hostname
  const telemetry = await telemetryOf(config, environment, size, instance)
  const { log, events, tracing } = telemetry
  for (const hint of hintsFor(config)) log.warn({ hint }, 'the configuration is accepted, with a warning')
  const secrets = secretsOf(config, environment.readFile, log)
  const nodes = await connectedNodes(config, telemetry, secrets)
  const failedLater = (err: unknown) => log.error({ err }, 'work in the background failed')
  const own = { instance, required: size.required, keyRing: secrets.keyRing }
  const { stack, lateClaims } = recordsOn(nodes, config, own, telemetry, failedLater)
  const { tenantInFlight: inFlightMax, tenantNewRecords: newRecordsPerSecondMax } = config
  const quotas = createTenantQuotas({ inFlightMax, newRecordsPerSecondMax }, clock)
  const bodyMemory = createBodyMemory(bodyMemoryBytes(config, environment.memoryLimitBytes), (of) =>
    events.publish({ kind: 'body_memory_full', of }),
  )
  const core = { bodyMemory, leases: stack.leases, quotas, clock, random, events, tracing }
  const { recent, traffic, observations } = requestsSeen(config, telemetry, clock)
  telemetry.subscribe(youngGenerationGrows())
  const background = createBackground(LATE_OFFERS_MAX, failedLater)
  const clients = await openClientIdentification(config, environment.readFile, clock, log)
  const listeners: Listeners = await openListeners(config, environment, secrets, clients.scope, {
    executing: {
      ...core,
      whenEnded: stack.leases.whenEnded,
      localLeases: stack.local,
      fairQueue: createFairQueue({ waitQueues: stack.waitQueues, clock, random }),
      background,
      nearMisses: createNearMisses(random.hex(16)),
    },
    answering: core,
    operating: {
      stack,
      instance,
      clock,
      random,
      events,
      recent,
      overview: () =>
        overviewFacts(
          watchedIn({ nodes, listeners, stack, core, secrets }, state),
          telemetry,
          size,
          traffic,
          observations,
        ),
      onTrouble: (err) => log.warn({ err }, 'the application could not be asked'),
    },
    onFailure: (err, problemInstance) =>
      log.error(
        { fault: faultOf(err), problem_instance: problemInstance },
        'a request failed in the sidecar',
      ),
  })
  return {
    size,
    telemetry,
    log,
    observations,
    secrets,
    nodes,
    stack,
    core,
    instance,
    background,
    lateClaims,
    listeners,
    /** Disposes of all parts but the listeners. */
    [Symbol.asyncDispose]: async () => {
      stack[Symbol.dispose]()
      await telemetry[Symbol.asyncDispose]()
      secrets[Symbol.dispose]()
      clients[Symbol.dispose]()
      await nodes[Symbol.asyncDispose]()
    },
  }
}

/** The records on the nodes, and claims on them that outlive their callers. */
function recordsOn(
  nodes: OpenNodes,
  config: Config,
  own: Pick<StackPorts, 'instance' | 'required' | 'keyRing'>,
  { events, tracedNode, subscribe }: Telemetry,
  failedLater: (err: unknown) => void,
) {
  // Apart from late offers and without a limit: in an outage they would take the places of outcomes.
  const lateClaims = createBackground(Number.POSITIVE_INFINITY, failedLater)
  const stack = openStack(config, nodes, { ...own, clock, random, events, tracedNode, lateClaims })
  if (stack.auditLog !== undefined)
    subscribe(appendAudit(stack.auditLog, clock, reportingUntaken(clock, events)))
  return { stack, lateClaims }
}

function sizeOf(config: Config) {
  const nodeNames = nodeNamesOf(config)
  // All groups have the same size.
  const nodeCount = nodeNames[0]?.length ?? 0
  return { nodeNames: nodeNames.flat(), nodeCount, required: majorityOf(nodeCount) }
}

function telemetryOf(
  config: Config,
  environment: AppEnvironment,
  size: ReturnType<typeof sizeOf>,
  instance: string,
) {
  const open = environment.openTelemetry ?? openTelemetry
  return open(config, { ...environment, ...size, instance, clock, random })
}

function secretsOf(config: Config, readFile: ReadFile, log: Telemetry['log']): Secrets {
  try {
    return openSecrets(config, readFile, clock, log)
  } catch (cause) {
    throw StartRefused.because("certificates and keys can't be used", cause)
  }
}

async function connectedNodes(
  config: Config,
  { events }: Pick<Telemetry, 'events'>,
  { nodeTls, nodePassword }: Secrets,
): Promise<OpenNodes> {
  const nodes = await openNodes(config, clock, random, events, { nodeTls, nodePassword })
  if (nodes.refused.length > 0) {
    await nodes[Symbol.asyncDispose]()
    throw new StartRefused(`these nodes can't vote:\n  ${nodes.refused.join('\n  ')}`)
  }
  await Promise.all(nodes.groups.map((group) => warmUp(group.nodes, clock, random)))
  return nodes
}

type WatchedParts = Pick<Parts, 'nodes' | 'listeners' | 'stack' | 'core' | 'secrets'>

/** The current state of all parts, for probes, scrapes and the operator's overview. */
function watchedIn(parts: WatchedParts, state: State): Watched {
  const { nodes, listeners, stack, core, secrets } = parts
  return {
    phase: state.phase,
    nodes: nodes.views(),
    agreed: nodes.agreed(),
    standstills: nodes.standstills(),
    clusterIds: nodes.clusterIds(),
    inFlight: listeners.inFlight(),
    bodyBytes: core.bodyMemory.usedBytes,
    bodyLimitBytes: core.bodyMemory.limitBytes,
    leasesReserved: listeners.reserved(),
    writeBackPending: stack.writeBackPending(),
    sweeping: state.coordination?.sweeping(),
    nodeStats: state.coordination?.nodeStats(),
    certificates: secrets.certificates(),
  }
}

/** Probes and scrapes, answered from the current state of all parts. */
function adminOf(parts: Parts, state: State) {
  const { telemetry, secrets, observations } = parts
  const since = new Date(clock.wallMs()).toISOString()
  const watched = () => watchedIn(parts, state)
  return createAdminServer({
    readiness: () => telemetry.readiness(watched()),
    started: () => state.phase !== 'starting',
    scrape: (accept) => telemetry.scrape(watched(), accept),
    observed: () => ({ since, ...observations.view() }),
    tls: secrets.tls('admin').tls,
  })
}

/** Probes first: the kubelet then sees that the sidecar is starting. */
async function listen(
  { adminListen: at }: Config,
  admin: ReturnType<typeof adminOf>,
  { listeners }: Parts,
): Promise<App['addresses']> {
  if (at.kind === 'off') return listeners.listen()
  const { kind: _, ...where } = at
  const address = await opened('admin', at, () => admin.listen(where))
  return { admin: address, ...(await listeners.listen()) }
}

function coordinate(
  config: Config,
  { stack, core, instance, listeners, log }: Parts,
): Coordination | undefined {
  return openCoordinations(config, stack.coordinated, {
    ...core,
    instance,
    application: listeners.application,
    untaken: reportingUntaken(clock, core.events),
    onFailure: (err) => log.warn({ err }, 'coordination stumbled'),
  })
}

function leave({ log, listeners }: Parts, state: State): void {
  if (state.phase !== 'serving') return
  state.phase = 'leaving'
  log.info('leaving: each answer ends its connection, until the end of the pod')
  listeners.leave()
}

async function drain(
  config: Config,
  { log, listeners, background, lateClaims }: Parts,
  state: State,
): Promise<void> {
  state.phase = 'draining'
  log.info('draining: new work is refused, work under way is finished')
  const untilMonoMs = clock.monoMs() + config.drainTimeoutMs
  // Holders go on extending and completing reservations while the proxy finishes its requests, and the sweeper may be
  // waiting for the application.
  await Promise.all([state.coordination?.[Symbol.asyncDispose](), listeners.close(config.drainTimeoutMs)])
  const drained = Promise.all([background.drained(), lateClaims.drained()])
  await within(drained, untilMonoMs - clock.monoMs())
}

/** Waits for the work within the limit. Unlike other timers this one keeps the process alive. */
async function within(work: Promise<unknown>, limitMs: number): Promise<void> {
  const ended = new AbortController()
  const overdue = setTimeout(Math.max(0, limitMs), undefined, { signal: ended.signal }).catch(() => {})
  await Promise.race([work, overdue])
  ended.abort()
}
