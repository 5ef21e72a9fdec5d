/**
 * The newest slow commands of all nodes, for whoever holds them against the timeline of a request: `/v1/operator/slow-commands`.
 *
 * Owns the form. A command is its name, its time and its node, never its arguments: they are keys and owners.
 */

import type { NodeLook } from '../../core/nodes/node-stats.ts'

/** `look`: undefined where the node did not answer. */
export type NodeSlowLog = { readonly node: string; readonly look: NodeLook | undefined }

/** Of every node, as they are at that moment. */
export type SlowLogs = { readonly slowLogs: () => Promise<readonly NodeSlowLog[]> }

export function slowCommandsOf(logs: readonly NodeSlowLog[]) {
  return {
    commands: logs
      .flatMap(({ node, look }) => (look?.slowCommands ?? []).map((one) => ({ node, ...one })))
      .sort((a, b) => b.atWallMs - a.atWallMs)
      .map(({ node, command, durationMs, atWallMs }) => ({
        at: new Date(atWallMs).toISOString(),
        node,
        command,
        duration_ms: durationMs,
      })),
    nodes: logs.map(({ node, look }) => {
      const entries = look?.stats.slowlogLength ?? Number.NaN
      return { node, ...(Number.isNaN(entries) ? { known: false } : { known: true, entries }) }
    }),
  }
}
