/** The output of `fencepost nodes` for the nodes of each quorum group, on the terminal and as JSON. */

import type { OpenCluster } from '../app/redis-groups.ts'
import { placeOf } from '../core/node-status.ts'
import { looksNew } from '../core/nodes/founding.ts'
import { printDuration } from '../core/quantity.ts'
import { majorityOf } from '../core/units.ts'
import { printableLines } from './printable.ts'

export function hasMajority(cluster: OpenCluster): boolean {
  const states = cluster.states()
  return states.filter(({ state }) => state.kind === 'voting').length >= majorityOf(states.length)
}

export function lossDeclared(cluster: OpenCluster): boolean {
  return cluster
    .states()
    .some(({ state }) => state.kind === 'quarantined' && state.facts.quarantine?.declaredBy !== undefined)
}

/** Whether those of its nodes that wait were never enrolled: nothing is lost, and they wait to be founded. */
export function isNew(cluster: OpenCluster): boolean {
  const waiting = cluster.states().flatMap(({ state }) => (state.kind === 'quarantined' ? [state.facts] : []))
  return waiting.length > 0 && waiting.every(({ quarantine }) => quarantine?.origin === 'new')
}

/** Whether no node of it that is fit was ever enrolled: it has yet to be founded, or its nodes know another list. */
function isUnfounded(cluster: OpenCluster): boolean {
  const known = cluster.states().flatMap(({ state }) => ('facts' in state ? [state.facts] : []))
  return known.length > 0 && known.every(looksNew)
}

/** The original form for one group; a list for several. */
export function described(groups: readonly OpenCluster[]) {
  const [only] = groups
  return groups.length === 1 && only !== undefined
    ? describedGroup(only)
    : { groups: groups.map((group) => ({ group: group.name, ...describedGroup(group) })) }
}

export function table(groups: readonly OpenCluster[]): string {
  return printableLines(groups.map(groupTable).join('\n'))
}

function describedGroup(cluster: OpenCluster) {
  const { id, quarantineMs } = cluster.cluster()
  const states = cluster.states()
  return {
    cluster: id === '' ? null : id,
    quarantineMs,
    required: majorityOf(states.length),
    standstill: cluster.standstill() ?? null,
    nodes: states.map(({ name, address, state }, index) => ({
      ...clockOf(cluster, index),
      name,
      address,
      state: state.kind,
      ...('reason' in state ? { reason: state.reason } : {}),
      ...('facts' in state
        ? { runId: state.facts.runId, program: state.facts.program, version: state.facts.version }
        : {}),
      ...(state.kind === 'quarantined' && state.facts.quarantine !== undefined
        ? {
            quarantinedForMs: state.facts.nodeMs - state.facts.quarantine.sinceNodeMs,
            recordsCopied: state.facts.quarantine.progress.copied,
            sourcesDone: state.facts.quarantine.progress.done.length,
          }
        : {}),
    })),
  }
}

/** Of a node that answered. */
function clockOf(cluster: OpenCluster, index: number) {
  const offset = cluster.clockOffset(index)
  if (offset === undefined) return {}
  const { offsetMs, uncertaintyMs } = offset
  return { clockOffsetMs: tenths(offsetMs), clockUncertaintyMs: tenths(uncertaintyMs) }
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}

function groupTable(cluster: OpenCluster): string {
  const { cluster: id, quarantineMs, required, standstill, nodes: rows } = describedGroup(cluster)
  const width = Math.max(...rows.map((row) => placeOf(row).length))
  // No time that passes enrols these, so none is shown.
  const founding = isUnfounded(cluster)
  const lines = rows.map((row) => {
    const quarantine =
      'quarantinedForMs' in row && !founding
        ? `, for ${printDuration(Math.max(0, Math.round(row.quarantinedForMs / 1_000) * 1_000))}, ${row.recordsCopied} records copied`
        : ''
    const detail =
      'reason' in row ? `${row.reason}${quarantine}` : `run ${row.runId}, ${row.program} ${row.version}`
    const clock =
      row.clockOffsetMs === undefined
        ? ''
        : `, clock ${row.clockOffsetMs < 0 ? '' : '+'}${row.clockOffsetMs} ms (± ${row.clockUncertaintyMs})`
    return `${placeOf(row).padEnd(width)}  ${row.state.padEnd(11)}  ${detail}${clock}`
  })
  const voting = rows.filter(({ state }) => state === 'voting').length
  const of = cluster.name === '' ? '' : `group ${cluster.name}, `
  const summary = `${of}cluster ${id ?? '(no fit node knows its name)'}: ${voting} of ${rows.length} nodes vote, ${required} are needed${founding ? '' : `; quarantine ${printDuration(quarantineMs)}`}`
  const advice = standstill === null ? [] : ['', `${standstill}.`]
  return `${[...lines, '', summary, ...advice].join('\n')}\n`
}
