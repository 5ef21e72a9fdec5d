/**
 * Composes the nodes of one cluster from the configuration: for the sidecar, and for the commands that look after nodes.
 */

import { nameOfNode, type RedisAddress } from '../config/addresses.ts'
import type { Config } from '../config/load.ts'
import { createLeases } from '../core/claims/leases.ts'
import type { Lines } from '../core/claims/line.ts'
import type { Trail } from '../core/coordination/trail.ts'
import type { Events } from '../core/events.ts'
import type { Cluster } from '../core/nodes/enrolment-rules.ts'
import { withBreaker } from '../core/nodes/node-breaker.ts'
import { watchNodeClocks } from '../core/nodes/node-clocks.ts'
import type { Clock, Leases, Random, RecordNode } from '../core/ports.ts'
import { createEmbeddedLines } from '../embedded/lines.ts'
import { createEmbeddedNodes, type StoppableNode } from '../embedded/node.ts'
import type { NodeView } from '../http/admin/server.ts'
import { createRedlockQuorum } from '../quorum/redlock.ts'
import { changeMembers, type MembersChanged } from '../redis/change-members.ts'
import { createRedisLines } from '../redis/lines.ts'
import { declareLoss, type LossDeclared } from '../redis/loss.ts'
import { RedisNodes } from '../redis/nodes.ts'
import { createRedisTrail } from '../redis/trail.ts'
import { systemClock } from '../system/clock.ts'
import { systemRandom } from '../system/random.ts'

const EMBEDDED_NODES = 5

export type OpenNodes = AsyncDisposable & {
  readonly nodes: readonly RecordNode[]
  /** Where those who wait for a record stand. */
  readonly lines: Lines
  /** The connections and the trail behind them; undefined where the nodes are embedded. */
  readonly redis: { readonly nodes: RedisNodes; readonly trail: Trail } | undefined
  /** Nodes that must not be used, each with its reason. Where there is one, the sidecar must not start. */
  readonly refused: readonly string[]
  views(): readonly NodeView[]
  stopEmbedded(index: number): void
}

/** As the nodes call themselves, in their order. */
export function nodeNamesOf({ redisNodes }: Pick<Config, 'redisNodes'>): readonly string[] {
  return redisNodes.kind === 'embedded'
    ? Array.from({ length: EMBEDDED_NODES }, (_, index) => `embedded-${index}`)
    : redisNodes.nodes.map((_, index) => `redis-${index}`)
}

export async function openNodes(
  config: Config,
  clock: Clock,
  random: Random,
  events: Events,
): Promise<OpenNodes> {
  if (config.redisNodes.kind === 'embedded') {
    const nodes: readonly StoppableNode[] = createEmbeddedNodes(
      EMBEDDED_NODES,
      clock,
      config.tokenAheadMs,
      events,
    )
    return {
      nodes,
      lines: createEmbeddedLines(clock),
      redis: undefined,
      refused: [],
      views: () => nodes.map(({ name, stopped }) => ({ name, state: stopped ? 'down' : 'voting' })),
      stopEmbedded: (index) => nodes[index]?.stop(),
      [Symbol.asyncDispose]: async () => {},
    }
  }
  const redis = redisNodesOf(config, config.redisNodes.nodes, clock, random, events)
  const watched = watchNodeClocks({
    nodes: redis.nodes,
    clock,
    events,
    suspendMs: config.quarantineMs,
    maxSkewMs: config.clockMaxSkewMs,
    enforce: config.clockEnforce,
    toleratedStepMs: config.clockStepMs,
    onLeap: (index, aheadMs) => redis.distrust(index, leaptReason(aheadMs)),
  })
  redis.onLook = watched.saw
  const refused = await redis.connect()
  return {
    nodes: watched.nodes.map((node) => withBreaker(node, { clock, random, events })),
    lines: createRedisLines({
      clients: () => votersOf(redis),
      nodeCount: redis.members.length,
      deadlineMs: config.nodeDeadlineMs,
      clock,
    }),
    redis: { nodes: redis, trail: trailOn(redis, clock) },
    refused,
    views: () =>
      redis.states().map(({ name, state }, index) => {
        const started = 'facts' in state ? { startedWallMs: state.facts.startedNodeMs } : {}
        if (state.kind === 'voting' && clock.monoMs() < watched.suspendedUntilMonoMs(index))
          return { name, state: 'suspended', reason: 'its clock was stepped', ...started }
        return 'reason' in state
          ? { name, state: state.kind, reason: state.reason, ...started }
          : { name, state: state.kind, ...started }
      }),
    stopEmbedded: () => {},
    [Symbol.asyncDispose]: () => redis[Symbol.asyncDispose](),
  }
}

function leaptReason(aheadMs: number): string {
  return `its clock leapt ${(aheadMs / 1_000).toFixed(1)} s ahead of the others: what it was to remember may have expired`
}

/** Written and read rarely, and nobody waits for it with a request: longer than a claim's command may take. */
const TRAIL_DEADLINE_MS = 1_000

function trailOn(redis: RedisNodes, clock: Clock): Trail {
  return createRedisTrail({
    clients: () => votersOf(redis),
    deadlineMs: TRAIL_DEADLINE_MS,
    clock,
  })
}

function votersOf(redis: RedisNodes) {
  return redis.members.map(({ state, client }) => (state.kind === 'voting' ? client : undefined))
}

/** The Redis nodes by themselves, for `fencepost nodes` and `fencepost dead-letters`. */
export type OpenCluster = AsyncDisposable & {
  readonly trail: Trail
  readonly leases: Leases
  /** Of each node, in the order of the setting, without credentials. */
  readonly addresses: readonly string[]
  connect(): Promise<readonly string[]>
  states(): ReturnType<RedisNodes['states']>
  cluster(): Cluster
  declareLoss(confirmation: string | undefined, by: string): Promise<LossDeclared>
  /** From now on the cluster consists of the nodes of the configuration. */
  changeMembers(confirmation: string | undefined, by: string): Promise<MembersChanged>
}

/**
 * @param watchOnly change nothing on the nodes
 * @returns undefined where the nodes are embedded
 */
export function openCluster(config: Config, events: Events, watchOnly: boolean): OpenCluster | undefined {
  if (config.redisNodes.kind === 'embedded') return undefined
  const { nodes } = config.redisNodes
  const redis = redisNodesOf(config, nodes, systemClock, systemRandom, events, watchOnly)
  return {
    addresses: nodes.map(({ host, port }) => `${host}:${port}`),
    trail: trailOn(redis, systemClock),
    leases: createLeases({
      quorum: createRedlockQuorum({ nodes: redis.nodes, clock: systemClock, events }),
      clock: systemClock,
      random: systemRandom,
      events,
    }),
    connect: () => redis.connect(),
    states: () => redis.states(),
    cluster: () => redis.cluster(),
    declareLoss: (confirmation, by) => declareLoss(redis, confirmation, by),
    changeMembers: (confirmation, by) => changeMembers(redis, sharedNamesOf(config, nodes), confirmation, by),
    [Symbol.asyncDispose]: () => redis[Symbol.asyncDispose](),
  }
}

function redisNodesOf(
  config: Config,
  addresses: readonly RedisAddress[],
  clock: Clock,
  random: Random,
  events: Events,
  watchOnly = false,
): RedisNodes {
  return new RedisNodes({
    addresses: addresses.map((node) => dialled(node, config)),
    names: sharedNamesOf(config, addresses),
    deadlineMs: config.nodeDeadlineMs,
    connectTimeoutMs: config.redisConnectTimeoutMs,
    maxTokenAheadMs: config.tokenAheadMs,
    quarantineMs: config.quarantineMs,
    clockStepMs: config.clockStepMs,
    clock,
    random,
    events,
    watchOnly,
  })
}

/** As all sidecars call the nodes: what stands on each of them. */
function sharedNamesOf(config: Config, addresses: readonly RedisAddress[]): readonly string[] {
  return config.redisNodeNames ?? addresses.map(nameOfNode)
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
