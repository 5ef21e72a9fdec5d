/**
 * By what this sidecar makes requests one, and where it looks for them: one series, whose labels an alert compares between
 * the sidecars of one application.
 */

import type { Gauge, MakeGauge } from './gauge.ts'

/** @property rules digits of all settings that make identities */
export type ShownIdentity = { readonly env: string; readonly rules: string }

export type IdentityGauge = Gauge<'env' | 'rules' | 'node_cluster'>

/** Before a node has voted nobody knows their cluster. */
const UNKNOWN = ''

export function identityGauge(gauge: MakeGauge, { env, rules }: ShownIdentity): IdentityGauge {
  return gauge(
    'fencepost_identity_info',
    'Constant 1, labelled with what makes two requests one here: the environment, a hash of the settings, and the cluster of the nodes.',
    { env: [env], rules: [rules], node_cluster: [UNKNOWN] },
    1,
  )
}

/** @param clusterIds of each group of nodes */
export function recordIdentity(
  gauge: IdentityGauge,
  { env, rules }: ShownIdentity,
  clusterIds: readonly string[] = [UNKNOWN],
): void {
  gauge.clear()
  const known = clusterIds.every((id) => id !== UNKNOWN)
  gauge.set({ env, rules, node_cluster: known ? clusterIds.toSorted().join(',') : UNKNOWN }, 1)
}
