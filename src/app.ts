/**
 * The composition root: builds every part of the sidecar in the order of their dependency, and takes it down again.
 *
 * The only file that sees two adapters. It decides nothing about requests.
 */

import type { FastifyInstance } from 'fastify'
import type { DestinationStream } from 'pino'
import type { ListenAddress, RedisAddress } from './config/addresses.ts'
import type { Config } from './config/load.ts'
import type { DedupPorts } from './core/deduplicate.ts'
import type { Events } from './core/events.ts'
import { createLeases } from './core/leases.ts'
import type { Clock, Random, RecordNode } from './core/ports.ts'
import { majorityOf } from './core/units.ts'
import { createWaiters } from './core/waiters.ts'
import { createEmbeddedNodes, type StoppableNode } from './embedded/node.ts'
import { createAdminServer, type NodeView, type Readiness } from './http/admin/server.ts'
import { fanOut } from './observe/fan-out.ts'
import { createLog, logEvents } from './observe/log.ts'
import { createMetrics } from './observe/metrics.ts'
import { createRedlockQuorum } from './quorum/redlock.ts'
import { RedisNodes } from './redis/nodes.ts'
import { systemClock } from './system/clock.ts'
import { systemRandom } from './system/random.ts'

const EMBEDDED_NODES = 5

export type AppEnvironment = {
  readonly version: string
  readonly nodeVersion: string
  readonly hostname: string
  readonly logTo: DestinationStream
}

export interface App extends AsyncDisposable {
  /** Where it really listens, ports resolved; absent where a listener is off. */
  readonly addresses: { readonly proxy?: string; readonly api?: string; readonly admin?: string }
  /** Refuses new work and waits for what is under way, at most `limits.drain`. */
  drain(): Promise<void>
  /** Of embedded nodes only: for the demonstration and for tests. */
  stopEmbeddedNode(index: number): void
}

/** The sidecar must not run like this: the message says what to change. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused'
}

/** @throws StartRefused where the nodes are not what they must be, or a listener can't be opened */
export async function createApp(config: Config, environment: AppEnvironment): Promise<App> {
  const clock = systemClock
  const random = systemRandom
  const instance = config.instance ?? environment.hostname
  const log = createLog({ level: config.logLevel, instance, destination: environment.logTo })
  const nodeCount = config.redisNodes.kind === 'embedded' ? EMBEDDED_NODES : config.redisNodes.nodes.length
  const required = majorityOf(nodeCount)
  const metrics = createMetrics({ ...environment, nodeCount, required })
  const events = fanOut([logEvents(log), metrics.subscriber], (cause) =>
    log.error({ err: cause }, 'a subscriber failed'),
  )

  const nodes = await openNodes(config, clock, random, events)
  const quorum = createRedlockQuorum({ nodes: nodes.nodes, clock, events })
  const leases = createLeases({ quorum, clock, random, events })
  // The same protocol on one node inside this process: what routes that chose `local` fall back to.
  const ownNodes = createEmbeddedNodes(1, clock, config.tokenAheadMs, events)
  const ownQuorum = createRedlockQuorum({ nodes: ownNodes, clock, events })
  const localLeases = createLeases({ quorum: ownQuorum, clock, random, events })
  const waiters = createWaiters(config.maxWaiters, config.maxWaiters)
  const dedup: DedupPorts = { leases, localLeases, waiters, clock, random, events }

  let phase: Phase = 'starting'
  const admin = createAdminServer({
    readiness: () => readinessOf(phase, nodes.views(), required),
    started: () => phase !== 'starting',
    scrape: metrics.scrape,
  })

  const addresses: { proxy?: string; api?: string; admin?: string } = {}
  const adminAddress = await listen('admin', admin, config.adminListen)
  if (adminAddress !== undefined) addresses.admin = adminAddress
  void dedup
  phase = 'serving'
  log.info(
    { addresses, nodes: nodes.views(), quorum_nodes: `${required}/${nodeCount}` },
    'fencepost is serving',
  )

  return {
    addresses,
    drain: async () => {
      phase = 'draining'
      log.info('draining: new work is refused, work under way is finished')
    },
    stopEmbeddedNode: (index) => nodes.stopEmbedded(index),
    [Symbol.asyncDispose]: async () => {
      await admin.close()
      await nodes[Symbol.asyncDispose]()
    },
  }
}

type Phase = 'starting' | 'serving' | 'draining'

type OpenNodes = AsyncDisposable & {
  readonly nodes: readonly RecordNode[]
  views(): readonly NodeView[]
  stopEmbedded(index: number): void
}

async function openNodes(config: Config, clock: Clock, random: Random, events: Events): Promise<OpenNodes> {
  const maxTokenAheadMs = config.tokenAheadMs
  if (config.redisNodes.kind === 'embedded') {
    const nodes: readonly StoppableNode[] = createEmbeddedNodes(
      EMBEDDED_NODES,
      clock,
      maxTokenAheadMs,
      events,
    )
    return {
      nodes,
      views: () => nodes.map(({ name, stopped }) => ({ name, state: stopped ? 'down' : 'voting' })),
      stopEmbedded: (index) => nodes[index]?.stop(),
      [Symbol.asyncDispose]: async () => {},
    }
  }
  const redis = new RedisNodes({
    addresses: config.redisNodes.nodes.map((node) => dialled(node, config)),
    deadlineMs: config.nodeDeadlineMs,
    connectTimeoutMs: config.redisConnectTimeoutMs,
    maxTokenAheadMs,
    clock,
    random,
    events,
  })
  await redis.connect()
  const unfit = redis
    .states()
    .flatMap(({ name, state }) => (state.kind === 'unfit' ? [`${name}: ${state.reason}`] : []))
  if (unfit.length > 0) {
    await redis[Symbol.asyncDispose]()
    throw new StartRefused(`these nodes can't vote:\n  ${unfit.join('\n  ')}`)
  }
  return {
    nodes: redis.nodes,
    views: () =>
      redis
        .states()
        .map(({ name, state }) =>
          'reason' in state ? { name, state: state.kind, reason: state.reason } : { name, state: state.kind },
        ),
    stopEmbedded: () => {},
    [Symbol.asyncDispose]: () => redis[Symbol.asyncDispose](),
  }
}

function dialled(node: RedisAddress, config: Config) {
  const host = node.host.includes(':') ? `[${node.host}]` : node.host
  const username = node.username ?? config.redisUsername
  const password = node.password ?? config.redisPassword?.content.replace(/\r?\n$/, '')
  return {
    url: `${node.tls ? 'rediss' : 'redis'}://${host}:${node.port}/${node.database}`,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(config.redisCa === undefined ? {} : { tlsCa: config.redisCa.content }),
  }
}

function readinessOf(phase: Phase, nodes: readonly NodeView[], required: number): Readiness {
  const voting = nodes.filter(({ state }) => state === 'voting').length
  const reasons = [
    ...(phase === 'serving' ? [] : [`it is ${phase}`]),
    ...(voting >= required ? [] : [`${voting} of ${nodes.length} nodes can vote, ${required} are needed`]),
  ]
  return { ready: reasons.length === 0, reasons, nodes }
}

async function listen(
  name: string,
  server: FastifyInstance,
  address: ListenAddress,
): Promise<string | undefined> {
  if (address.kind === 'off') return undefined
  try {
    const { kind: _, ...where } = address
    return await server.listen(where)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new StartRefused(`the ${name} listener could not be opened: ${why}`, { cause })
  }
}
