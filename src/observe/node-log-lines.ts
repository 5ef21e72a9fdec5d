/** The words of the log about nodes, and about the cluster that they form. `log-lines.ts` has all others. */

import { placeOf } from '../core/node-status.ts'
import { isATry, type Lines, rounded } from './log-line.ts'

export const NODE_LINES: Lines<
  | 'breaker_changed'
  | 'clock_offset'
  | 'clock_stepped'
  | 'cluster_founded'
  | 'cluster_replaced'
  | 'enrolment_blocked'
  | 'enrolment_progress'
  | 'enrolment_stumbled'
  | 'entries_untaken'
  | 'loss_declared'
  | 'node_enrolled'
  | 'node_memory'
  | 'node_state'
  | 'node_writes'
  | 'slow_command'
> = {
  clock_stepped: (event) => ({
    level: 'error',
    message: `the clock of ${event.node} was stepped; its votes do not count until the longest lease is over`,
    fields: { node: event.node, step_ms: rounded(event.stepMs), suspended_ms: event.suspendedMs },
  }),
  clock_offset: (event) => ({
    level: event.skewed ? 'warn' : 'info',
    message: `the clock of ${event.node} is ${event.skewed ? 'further off ours than tolerated' : 'near ours again'}`,
    fields: {
      node: event.node,
      offset_ms: rounded(event.offsetMs),
      uncertainty_ms: rounded(event.uncertaintyMs),
    },
  }),
  breaker_changed: (event) => {
    if (isATry(event.from, event.to)) return undefined
    return {
      level: event.to === 'open' ? 'warn' : 'info',
      message: `${event.node} ${event.to === 'open' ? 'is not responding; its circuit breaker is open' : 'responds again'}`,
      fields: { node: event.node, from: event.from, to: event.to },
    }
  },
  node_state: (event) => ({
    level: event.to === 'voting' ? 'info' : 'warn',
    message: `${placeOf({ name: event.node, address: event.address })} is ${event.to}${event.from === event.to ? '' : `, was ${event.from}`}: ${event.reason}`,
    fields: { node: event.node, address: event.address, from: event.from, to: event.to },
  }),
  node_memory: (event) => ({
    level: event.full ? 'error' : 'info',
    message: event.full
      ? `${event.node} is full: it is sent no new claims`
      : `${event.node} has room again: it is sent new claims`,
    fields: { node: event.node, used_bytes: event.usedBytes, limit_bytes: event.limitBytes },
  }),
  node_writes: ({ node, refusal }) => ({
    level: refusal === undefined ? 'info' : 'error',
    message:
      refusal === undefined
        ? `${node} takes writes again`
        : `${node} refuses every write, so no request can count on it: ${refusal}`,
    fields: { node, ...(refusal === undefined ? {} : { refusal }) },
  }),
  slow_command: ({ node, command, durationMs, atWallMs }) => ({
    level: 'warn',
    message: `${command} blocked ${node} for ${rounded(durationMs)} ms`,
    fields: {
      node,
      command,
      duration_ms: rounded(durationMs),
      began: new Date(atWallMs).toISOString(),
    },
  }),
  cluster_founded: (event) => ({
    level: 'warn',
    message: 'a brand-new cluster was founded: its nodes remembered nothing',
    fields: { nodes: event.nodes },
  }),
  cluster_replaced: (event) => ({
    level: 'error',
    message: `the nodes were founded anew beside this sidecar: ${event.node} belongs to the cluster ${event.found}, and this sidecar has worked with ${event.known}. It accepts none of them, because what ${event.known} remembered is forgotten there and would be carried out again. See docs/operations/nodes.md, "Founded anew beside a running sidecar".`,
    fields: { node: event.node, known_cluster: event.known, found_cluster: event.found },
  }),
  enrolment_progress: (event) => ({
    level: 'info',
    message: `records are copied to ${event.node}`,
    fields: { node: event.node, sources_done: event.sourcesDone, copied: event.copied },
  }),
  enrolment_blocked: (event) => ({
    level: 'error',
    message: `${event.node} can't be enrolled: ${event.voting} other nodes vote, ${event.required} must. \`fencepost nodes status\` says what ends that.`,
    fields: { node: event.node, voting: event.voting, required: event.required },
  }),
  enrolment_stumbled: (event) => ({
    level: 'warn',
    message: `an enrolment step failed on ${event.node}; retrying`,
    fields: { node: event.node, error: event.reason },
  }),
  entries_untaken: ({ of, entries, why }) => ({
    level: 'warn',
    message: `${entries === 1 ? 'an entry' : `${entries} entries`} of the ${UNTAKEN[of]} found no majority of the nodes: ${why}`,
    fields: { of, entries },
  }),
  loss_declared: (event) => ({
    level: 'error',
    message: `${event.by} declared the data of ${event.node} lost: earlier requests may be executed again`,
    fields: { node: event.node, declared_by: event.by },
  }),
  node_enrolled: (event) => ({
    level: 'info',
    message: `${event.node} was enrolled and votes again`,
    fields: { node: event.node, copied: event.copied },
  }),
}

const UNTAKEN = { 'dead-letters': 'dead letters', audit: 'audit log', queue: 'wait queues' } as const
