/**
 * Composes the Redis nodes of each quorum group from the configuration: for the sidecar, and separately for the
 * commands that manage nodes.
 */

import { nameOfNode, type RedisAddress, type RedisGroup } from '../config/addresses.ts'
import type { Config } from '../config/load.ts'
import { rowOf } from '../config/settings.ts'
import type { Clock, Random } from '../core/clock.ts'
import { type AuditLog, auditLogOverGroups } from '../core/coordination/audit-log.ts'
import type { Events } from '../core/events.ts'
import type { NodeFault } from '../core/node-faults.ts'
import type { ClockOffset, NodeStatus } from '../core/node-status.ts'
import { type ClockSample, judgeOffset, offsetOf } from '../core/nodes/clock-samples.ts'
import { groupList } from '../core/nodes/fitness.ts'
import { placementOf, routeLeases } from '../core/nodes/groups.ts'
import type { PollListener } from '../core/nodes/member.ts'
import { foundingWindowMs, mayBeFounded } from '../core/nodes/rejoin-rules.ts'
import { declareLoss, standstillOf, statusesOf } from '../core/nodes/shown-nodes.ts'
import { answerMaxAgeMs } from '../core/quorum/tally.ts'
import { pauseUnless } from '../core/retry.ts'
import { policiesOf } from '../core/routes/route.ts'
import { majorityOf } from '../core/units.ts'
import { createRedisAuditLog } from '../redis/audit-log.ts'
import { changeGroups } from '../redis/change-groups.ts'
import { changeMembers } from '../redis/change-members.ts'
import { addressesReached } from '../redis/connect.ts'
import type { NodeTls } from '../redis/connector.ts'
import { readNodeDetails } from '../redis/node-details.ts'
import { RedisNodes } from '../redis/nodes.ts'
import { createSidecarNames, type SidecarNames } from '../redis/sidecar-names.ts'
import { systemClock, systemRandom } from '../system/clock.ts'
import { nodeTlsOf } from './secrets.ts'
import { decisionTermsOf } from './settle-question.ts'
import { operatorLeases } from './stack.ts'

/** A group, not yet connected. */
export type RedisGroupNodes = {
  /** Empty for the only group. */
  readonly name: string
  /** Its nodes' names, the same for all sidecars. */
  readonly nodeNames: readonly string[]
  /** The list that each node stores: these names, and the groups. */
  readonly list: readonly string[]
  readonly nodes: RedisNodes
}

/** What nodes are dialled with, as its files hold it now. */
export type NodeSecrets = {
  /** Where a node speaks TLS. */
  readonly nodeTls?: (() => NodeTls) | undefined
  /** Of the nodes whose URLs have none. */
  readonly nodePassword?: (() => string) | undefined
}

export type RedisPorts = NodeSecrets & {
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  /** Change nothing on the nodes. */
  readonly watchOnly?: boolean
}

export type NamedNodes = Pick<Config, 'redisNodes' | 'redisNodeNames'>

/** What all sidecars call the nodes, group by group: the order in which a sidecar was given them does not matter. */
export function redisNodeNames(
  groups: readonly RedisGroup[],
  { redisNodeNames: given }: Pick<NamedNodes, 'redisNodeNames'>,
): readonly (readonly string[])[] {
  let before = 0
  return groups.map(({ nodes }) => {
    const from = before
    before += nodes.length
    return given?.slice(from, before) ?? nodes.map(nameOfNode)
  })
}

export function openRedisGroups(
  config: Config,
  groups: readonly RedisGroup[],
  ports: RedisPorts,
): readonly RedisGroupNodes[] {
  const names = groups.map(({ name }) => name)
  const namesOfNodes = redisNodeNames(groups, config)
  const opened: RedisGroupNodes[] = []
  for (const { name: given, nodes: addresses } of groups) {
    const at = opened.length
    const name = groups.length > 1 ? given : ''
    const nodeNames = namesOfNodes[at] ?? []
    const list = groupList(nodeNames, given, names)
    // The group may have been placed among different groups before: only the nodes of the other groups can tell.
    const mayFound = () =>
      opened.every(({ nodes }, other) => other === at || isBrandNew(nodes) || hasMajority(nodes))
    const nodes = redisNodesOf(config, addresses, list, name, mayFound, ports)
    opened.push({ name, nodeNames, list, nodes })
  }
  return opened
}

/**
 * Dials all nodes of all groups.
 *
 * @param onPoll per group: the listener that watches the clocks of its nodes
 * @returns the nodes that must not be used, each with its reason
 */
export async function connectAll(
  groups: readonly { readonly nodes: RedisNodes; readonly onPoll?: PollListener | undefined }[],
): Promise<readonly string[]> {
  const refused = await Promise.all(groups.map(({ nodes, onPoll }) => nodes.connect(onPoll)))
  // Each group was inspected before the others: only now is it known whether it may be founded.
  if (groups.length > 1) for (const { nodes } of groups) await nodes.rejoin.foundIfNew()
  return refused.flat()
}

export function hasMajority({ members }: RedisNodes): boolean {
  return members.filter(({ state }) => state.kind === 'voting').length >= majorityOf(members.length)
}

function isBrandNew({ members }: RedisNodes): boolean {
  return mayBeFounded(members.map(({ state }) => (state.kind === 'quarantined' ? state.facts : undefined)))
}

/** Longer than a claim's command may take: the audit log is written and read rarely, and no request waits for it. */
const AUDIT_DEADLINE_MS = 1_000

export function auditLogOn(redis: RedisNodes, clock: Clock): AuditLog {
  return createRedisAuditLog({
    clients: () => votersOf(redis),
    deadlineMs: AUDIT_DEADLINE_MS,
    clock,
  })
}

export function sidecarNamesOn(redis: RedisNodes, clock: Clock): SidecarNames {
  return createSidecarNames({ clients: () => votersOf(redis), clock })
}

export function votersOf(redis: RedisNodes) {
  return redis.members.map(({ state, client }) => (state.kind === 'voting' ? client : undefined))
}

/**
 * A command dials as a sidecar does, and says then how each node is. It has just started, so on a busy machine it may get no turn for longer
 * than a dial takes, and would find every node down by its own stall: where a dial ended by its deadline it is repeated for so long.
 */
const COMMAND_REDIALS_MS = 5_000

/** Of a dial that its deadline ended. */
const LATE: readonly NodeFault[] = ['no_connection', 'tls_unfinished']

/** All groups, for the commands. */
export type OpenClusters = NonNullable<ReturnType<typeof openClusters>>

/** The nodes of one group. */
export type OpenCluster = OpenClusters['groups'][number]

/**
 * @param watchOnly change nothing on the nodes
 * @returns undefined for embedded nodes
 */
export function openClusters(config: Config, events: Events, watchOnly: boolean) {
  if (config.redisNodes.kind === 'embedded') return undefined
  const [clock, random] = [systemClock, systemRandom]
  const given = config.redisNodes.groups
  // A command ends before its files change.
  const [tls, password, ring] = [nodeTlsOf(config), config.redisPassword?.content, config.keyRing?.ring]
  const opened = openRedisGroups(config, given, {
    clock,
    random,
    events,
    watchOnly,
    nodeTls: tls && (() => tls),
    nodePassword: password === undefined ? undefined : () => password,
  })
  const placement = placementOf(opened.map(({ name }) => name))
  const leasesOf = ({ nodes: { nodes } }: RedisGroupNodes) =>
    operatorLeases(config, nodes, { clock, random, events, keyRing: ring && (() => ring) })
  const offsets = opened.map(() => new Map<number, ClockOffset>())
  const watching = opened.map(({ nodes }, at) => ({
    nodes,
    onPoll: (index: number, { nodeMs, sentMonoMs, receivedMonoMs }: ClockSample, sentWallMs: number) => {
      const offset = offsetOf(nodeMs, sentWallMs, receivedMonoMs - sentMonoMs)
      const skewed = judgeOffset(offset, config.clockMaxSkewMs) ?? false
      offsets[at]?.set(index, { ...offset, skewed })
      return true
    },
  }))
  return {
    groups: opened.map(({ name, list, nodes }, at) => ({
      name,
      /** How long its nodes, if they are new, wait for objections before they are founded. */
      foundingWindowMs: foundingWindowMs(config.redisConnectTimeoutMs),
      states: () => nodes.states(),
      statuses: (): readonly NodeStatus[] =>
        statusesOf(nodes).map((status, index) => {
          const clock = offsets[at]?.get(index)
          return clock === undefined ? status : { ...status, clock }
        }),
      cluster: () => nodes.cluster(),
      /** Of each node besides its vote; undefined where it does not answer. */
      details: () => Promise.all(nodes.members.map(({ client }) => readNodeDetails(client, clock))),
      addressesReached: () =>
        Promise.all(nodes.options.addresses.map((one) => addressesReached(one, nodes.options))),
      /** Why votes no longer come back by themselves, and what to do. */
      standstill: () => standstillOf(nodes),
      declareLoss: (confirmation: string | undefined, by: string) => declareLoss(nodes, confirmation, by),
      /** Makes the configured nodes the cluster's members. */
      changeMembers: (confirmation: string | undefined, by: string) =>
        changeMembers(nodes, list, confirmation, by),
    })),
    auditLog: auditLogOverGroups(
      opened.map(({ nodes }) => auditLogOn(nodes, clock)),
      placement,
    ),
    leases: routeLeases(opened.map(leasesOf), placement, {
      required: majorityOf(given[0]?.nodes.length ?? 0),
      agreed: () => opened.length === 1 || opened.every(({ nodes }) => hasMajority(nodes)),
    }),
    terms: decisionTermsOf(config),
    /** Of what is written on them. */
    clock,
    connect: async () => {
      const refused = await connectAll(watching)
      await Promise.all(opened.map(({ nodes }) => redialled(nodes, clock)))
      return refused
    },
    /** Makes these groups the ones among which identities are placed. */
    changeGroups: (to: readonly string[] | undefined, confirmation: string | undefined, by: string) => {
      // Here even the only group has a name.
      const groups = opened.map((group, at) => ({ ...group, name: given[at]?.name ?? group.name }))
      return changeGroups(groups, to ?? groups.map(({ name }) => name), confirmation, by)
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(opened.map(({ nodes }) => nodes[Symbol.asyncDispose]()))
    },
  }
}

async function redialled(nodes: RedisNodes, clock: Clock): Promise<void> {
  const late = nodes.members.filter(({ state }) => state.kind === 'down' && LATE.includes(state.fault))
  await Promise.all(
    late.map(async (member) => {
      const ready = new Promise<void>((resolve) => {
        member.client.once('ready', () => resolve())
      })
      await pauseUnless([ready], COMMAND_REDIALS_MS, clock)
      await nodes.inspect(member)
    }),
  )
}

function redisNodesOf(
  config: Config,
  addresses: readonly RedisAddress[],
  names: readonly string[],
  group: string,
  mayFound: () => boolean,
  { clock, random, events, watchOnly = false, ...secrets }: RedisPorts,
): RedisNodes {
  return new RedisNodes({
    addresses: addresses.map((node) => dialled(node, config, secrets)),
    names,
    group,
    mayFound,
    deadlineMs: config.nodeDeadlineMs,
    connectTimeoutMs: config.redisConnectTimeoutMs,
    foundingWindowMs: foundingWindowMs(config.redisConnectTimeoutMs),
    outcomeBytesMax: largestOutcomeBytes(config),
    maxTokenAheadMs: config.tokenAheadMs,
    quarantineMs: config.quarantineMs,
    answerMaxAgeMs: answerMaxAgeMs(config.quarantineMs),
    clockStepMs: config.clockStepMs,
    claimsMemoryShare: config.nodeMemoryClaims,
    clock,
    random,
    events,
    watchOnly,
  })
}

function largestOutcomeBytes({ routes, storedResponseLimitBytes }: Config): number {
  const limits = routes.flatMap(policiesOf).map((route) => route.storedResponseLimitBytes)
  return Math.max(storedResponseLimitBytes, ...limits)
}

function dialled(
  node: RedisAddress,
  { redisUsername, redisPassword }: Config,
  { nodeTls, nodePassword }: NodeSecrets,
) {
  const username = node.username ?? redisUsername
  const { password: ofUrl } = node
  const password = ofUrl === undefined ? nodePassword : () => ofUrl
  const source = ofUrl === undefined ? `${rowOf('redisPassword').env}, ${redisPassword?.path}` : 'its URL'
  return {
    url: `${node.tls ? 'rediss' : 'redis'}://${nameOfNode(node)}/${node.database}`,
    login: `user ${username ?? 'default'}, ${password === undefined ? 'no password is set' : `password of ${source}`}`,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(node.tls && nodeTls !== undefined ? { tls: nodeTls } : {}),
  }
}
