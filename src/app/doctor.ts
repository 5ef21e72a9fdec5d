/** Reads what `fencepost doctor` judges: nodes, their addresses, certificates, and the sidecar at its admin address. */

import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { withoutBrackets } from '../config/addresses.ts'
import { certificatesIn } from '../config/certificates.ts'
import type { Config } from '../config/load.ts'
import { SILENT } from '../core/events.ts'
import type { Installation, NodeSeen } from '../core/health/checkup.ts'
import { majorityOf } from '../core/units.ts'
import { systemClock } from '../system/clock.ts'
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
  // It only looks: no node is founded or enrolled by this.
  await using clusters = openClusters(config, SILENT, true)
  await clusters?.connect()
  const groups = await Promise.all(
    (clusters?.groups ?? []).map(async (group) => {
      const [states, details] = [group.states(), await group.details()]
      return {
        name: group.name,
        nodes: await Promise.all(
          states.map(async ({ name, state }, at): Promise<NodeSeen> => {
            const address = group.addresses[at] ?? ''
            return {
              name,
              address,
              ips: await ipsOf(address),
              state: state.kind,
              reason: 'reason' in state ? state.reason : undefined,
              details: details[at],
            }
          }),
        ),
      }
    }),
  )
  const guarded = config.routes.filter((route) => route.mode !== 'bypass')
  return {
    groups,
    required: majorityOf(groups[0]?.nodes.length ?? 0),
    maxSkewMs: config.clockMaxSkewMs,
    nodeDeadlineMs: config.nodeDeadlineMs,
    longestRetentionMs: Math.max(...guarded.map(({ retentionMs }) => retentionMs), 1),
    certificates: certificatesIn(config).map(({ path, ...lifetime }) => ({ name: path, ...lifetime })),
    wallMs: systemClock.wallMs(),
    versions: { own: version, admin, sidecar: await versionAt(admin) },
    rules: { names: guarded.map(({ name }) => name), builtIn },
  }
}

async function ipsOf(address: string): Promise<readonly string[]> {
  const host = withoutBrackets(address.slice(0, address.lastIndexOf(':')))
  if (isIP(host) !== 0) return [host]
  const found = await lookup(host, { all: true }).catch(() => [])
  return found.map((one) => one.address)
}

async function versionAt(admin: string): Promise<string | undefined> {
  try {
    const answer = await fetch(new URL('/metrics', admin), { signal: AbortSignal.timeout(ADMIN_WITHIN_MS) })
    return /^fencepost_build_info\{[^}]*\bversion="([^"]+)"/m.exec(await answer.text())?.[1]
  } catch {
    return undefined
  }
}
