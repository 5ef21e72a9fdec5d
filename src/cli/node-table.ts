/** The output of `fencepost nodes` for the nodes of each quorum group, on the terminal and as JSON. */

import type { OpenCluster } from '../app/redis-groups.ts'
import { sentenceOf } from '../core/node-faults.ts'
import { placeOf } from '../core/node-status.ts'
import { looksNew } from '../core/nodes/rejoin-rules.ts'
import { printDuration } from '../core/quantity.ts'
import { majorityOf } from '../core/units.ts'
import { printableLines } from './terminal.ts'

export function hasMajority(cluster: OpenCluster): boolean {
  const states = cluster.states()
  return states.filter(({ state }) => state.kind === 'voting').length >= majorityOf(states.length)
}

export function lossDeclared(cluster: OpenCluster): boolean {
  return cluster
    .states()
    .some(({ state }) => state.kind === 'quarantined' && state.facts.quarantine?.declaredBy !== undefined)
}

/** Whether those of its nodes that wait have never joined: nothing is lost, and they wait to be founded. */
export function isNew(cluster: OpenCluster): boolean {
  const waiting = cluster.states().flatMap(({ state }) => (state.kind === 'quarantined' ? [state.facts] : []))
  return waiting.length > 0 && waiting.every(({ quarantine }) => quarantine?.origin === 'new')
}

/** Whether no node of it that is fit has ever joined: it has yet to be founded, or its nodes know another list. */
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
  const nodes = cluster.statuses()
  return {
    cluster: id === '' ? null : id,
    quarantineMs,
    required: majorityOf(nodes.length),
    standstill: cluster.standstill() ?? null,
    nodes,
  }
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}

function groupTable(cluster: OpenCluster): string {
  const { cluster: id, quarantineMs, required, standstill, nodes: rows } = describedGroup(cluster)
  const width = Math.max(...rows.map((row) => placeOf(row).length))
  // No time that passes brings these back, so none is shown.
  const founding = isUnfounded(cluster)
  const lines = rows.map((row) => {
    const { state, reason, remedy, run, server, clock, quarantine, sinceWallMs } = row
    const waits =
      quarantine === undefined || founding
        ? ''
        : `, for ${printDuration(Math.max(0, Math.round(quarantine.forMs / 1_000) * 1_000))}, ${quarantine.recordsCopied} records copied`
    const offset =
      clock === undefined
        ? ''
        : `, clock ${clock.offsetMs < 0 ? '' : '+'}${tenths(clock.offsetMs)} ms (± ${tenths(clock.uncertaintyMs)})`
    // What a whole cluster waits for is said once, below.
    const todo = state === 'quarantined' ? undefined : remedy
    const since =
      sinceWallMs === undefined || quarantine !== undefined
        ? ''
        : `, since ${new Date(sinceWallMs).toISOString()}`
    const detail = reason === undefined ? `run ${run}, ${server}` : sentenceOf({ reason, remedy: todo })
    return `${placeOf(row).padEnd(width)}  ${state.padEnd(11)}  ${detail}${since}${waits}${offset}`
  })
  const voting = rows.filter(({ state }) => state === 'voting').length
  const of = cluster.name === '' ? '' : `group ${cluster.name}, `
  const summary = `${of}cluster ${id ?? '(no fit node knows its name)'}: ${voting} of ${rows.length} nodes vote, ${required} are needed${founding ? '' : `; quarantine ${printDuration(quarantineMs)}`}`
  const advice = standstill === null ? [] : ['', `${standstill}.`]
  return `${[...lines, '', summary, ...advice].join('\n')}\n`
}
