/**
 * Reads what `fencepost doctor` judges: nodes, their addresses, certificates, the application, and the sidecar at its admin address.
 *
 * Everything is dialled as the sidecar dials it: by the same connectors, with its deadlines, its TLS and its users.
 */

import { certificatesIn } from '../config/certificates.ts'
import type { Config } from '../config/load.ts'
import { SILENT } from '../core/events.ts'
import type { Installation } from '../core/health/installation.ts'
import type { ObservationsView } from '../core/health/observations.ts'
import type { NodeStatus } from '../core/node-status.ts'
import { policiesOf } from '../core/routes/route.ts'
import { majorityOf } from '../core/units.ts'
import { systemClock } from '../system/clock.ts'
import { whyNoConnection } from '../upstream/connection.ts'
import { openClusters } from './redis-groups.ts'

const ADMIN_WITHIN_MS = 2_000

/** @param admin address of the admin listener of a running sidecar */
export async function installation(
  config: Config,
  {
    admin,
    version,
    builtIn,
  }: { readonly admin: string; readonly version: string; readonly builtIn: boolean },
): Promise<Installation> {
  // It only polls: nothing is founded and no node rejoins by this.
  await using clusters = openClusters(config, SILENT, true)
  await clusters?.connect()
  const groups = await Promise.all(
    (clusters?.groups ?? []).map(async (group) => {
      const statuses = group.statuses()
      const [details, reached] = [await group.details(), await group.addressesReached()]
      return {
        name: group.name,
        standstill: group.standstill(),
        nodes: statuses.map((status, at) => ({
          ...status,
          ...(reached[at] ?? { ips: [], silent: [] }),
          details: details[at],
        })),
      }
    }),
  )
  const guarded = config.routes.flatMap(policiesOf)
  return {
    groups,
    required: majorityOf(groups[0]?.nodes.length ?? 0),
    maxSkewMs: config.clockMaxSkewMs,
    nodeDeadlineMs: config.nodeDeadlineMs,
    longestRetentionMs: Math.max(...guarded.map(({ retentionMs }) => retentionMs), 1),
    certificates: certificatesIn(config).map(({ path, ...lifetime }) => ({ name: path, ...lifetime })),
    wallMs: systemClock.wallMs(),
    application: await applicationOf(config),
    versions: { own: version, admin, sidecar: await shownAt(admin, '/metrics', versionIn) },
    atSidecar: await shownAt(admin, '/readyz', nodesIn),
    nearMisses: await shownAt(admin, '/observed', nearMissesIn),
    rules: { names: guarded.map(({ name }) => name), builtIn },
  }
}

async function applicationOf(config: Config): Promise<Installation['application']> {
  const { upstream, proxyListen, upstreamConnectTimeoutMs } = config
  if (upstream === undefined || proxyListen.kind === 'off') return undefined
  return {
    address: upstream.kind === 'unix' ? `unix:${upstream.path}` : upstream.origin,
    fault: await whyNoConnection(upstream, upstreamConnectTimeoutMs),
  }
}

/** Undefined where nothing answers there, or another program. */
async function shownAt<T>(
  admin: string,
  path: string,
  read: (answer: Response) => Promise<T | undefined>,
): Promise<T | undefined> {
  try {
    return await read(await fetch(new URL(path, admin), { signal: AbortSignal.timeout(ADMIN_WITHIN_MS) }))
  } catch {
    return undefined
  }
}

async function versionIn(metrics: Response): Promise<string | undefined> {
  return /^fencepost_build_info\{[^}]*\bversion="([^"]+)"/m.exec(await metrics.text())?.[1]
}

/** As its readiness shows them, with 200 or 503. */
async function nodesIn(readiness: Response): Promise<Installation['atSidecar']> {
  const { nodes } = (await readiness.json()) as { readonly nodes?: unknown }
  return Array.isArray(nodes) && nodes.every(isNodeStatus) ? nodes : undefined
}

async function nearMissesIn(observed: Response): Promise<Installation['nearMisses']> {
  const { near_misses: all } = (await observed.json()) as Partial<ObservationsView>
  return Array.isArray(all) ? all.map(({ says }) => String(says)) : undefined
}

function isNodeStatus(node: Partial<NodeStatus> | null): node is NodeStatus {
  return typeof node?.name === 'string' && typeof node.state === 'string'
}
