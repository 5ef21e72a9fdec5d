/** The dashboard of quorum and nodes: which nodes vote, how fast they answer, and how their servers are. */
import {
  type Board,
  NEUTRAL,
  NONE_IS_GOOD,
  type Panel,
  quantile,
  rate,
  S,
  series,
  UP,
  upFrom,
} from './board.ts'

/** Of the nodes' servers, as the sidecar shows them that is elected to ask. */
const server = (
  title: string,
  description: string,
  unit: Panel['unit'],
  queries: readonly [expr: string, legend: string][],
  thresholds = NEUTRAL,
): Panel =>
  series({
    title,
    description,
    unit,
    queries: queries.map(([expr, legend]) => ({ expr, legend })),
    thresholds,
  })

/** A line for each node, whichever sidecar is elected. */
const ofNode = (stat: string) => `max by (node) (fencepost_redis_node_${stat}{${S}})`
/** A second. Of a count since the start of the node; the subquery follows it from one elected sidecar to the next. */
const rateOfNode = (stat: string) => `rate((${ofNode(stat)})[5m:30s])`

export const quorum: Board = {
  uid: 'fencepost-quorum',
  title: 'Fencepost / Quorum & Redis nodes',
  description: 'Which nodes vote, how fast they answer, and how they are.',
  panels: [
    {
      kind: 'states',
      title: 'Votes within reach',
      description:
        'The fewest nodes that any sidecar can count on, beside how many are required. Equal: nothing to spare.',
      unit: 'short',
      queries: [
        { expr: `min(fencepost_quorum_reachable_nodes{${S}})`, legend: 'reachable' },
        { expr: `max(fencepost_quorum_required{${S}})`, legend: 'required' },
      ],
      thresholds: [
        { from: null, color: 'red' },
        { from: 3, color: 'yellow' },
        { from: 4, color: 'green' },
      ],
    },
    {
      kind: 'states',
      title: 'Nodes that vote',
      description: 'Share of sidecars that have the vote of each node.',
      unit: 'percentunit',
      queries: [{ expr: `avg by (node) (fencepost_redis_node_up{${S}})`, legend: '{{node}}' }],
      thresholds: UP,
    },
    series({
      title: 'Margin of granted claims',
      description:
        'The margin is how many votes a claim had beyond the majority it needs: five of five nodes are two more than three. So many nodes more could have failed, on average; at 0 the next one that fails refuses claims.',
      unit: 'short',
      queries: [
        {
          expr: `sum(${rate('fencepost_quorum_margin_votes_sum')}) / (sum(${rate('fencepost_quorum_margin_votes_count')}) > 0)`,
          legend: 'margin',
        },
      ],
      thresholds: [
        { from: null, color: 'red' },
        { from: 1, color: 'yellow' },
        { from: 1.8, color: 'green' },
      ],
    }),
    series({
      title: 'p95 by node',
      description:
        'One command, from asking to its answer. A node that stands out is its machine or its path.',
      unit: 's',
      queries: [
        { expr: quantile(0.95, 'fencepost_redis_node_request_duration_seconds', 'node'), legend: '{{node}}' },
      ],
      thresholds: upFrom(0.025, 0.08),
    }),
    series({
      title: 'No answer, by node',
      description: 'Commands a second that timed out or found no connection.',
      unit: 'cps',
      queries: [
        {
          expr: `sum by (node, result) (${rate('fencepost_redis_node_requests_total', 'result=~"timeout|error"')})`,
          legend: '{{node}} {{result}}',
        },
      ],
      thresholds: NONE_IS_GOOD,
    }),
    series({
      title: 'Clock of each node',
      description:
        'Clock of the node minus that of the sidecar, the largest of all sidecars. Beyond 50 ms it alerts.',
      unit: 's',
      queries: [
        { expr: `max by (node) (abs(fencepost_redis_clock_skew_seconds{${S}}))`, legend: '{{node}}' },
      ],
      thresholds: upFrom(0.02, 0.05),
    }),
    series({
      title: 'Uptime of each node',
      description:
        'A fall is a restart. A node without persistence has no vote until its quarantine is over.',
      unit: 's',
      queries: [
        {
          expr: `time() - max by (node) (fencepost_redis_node_start_timestamp_seconds{${S}})`,
          legend: '{{node}}',
        },
      ],
      thresholds: [
        { from: null, color: 'red' },
        { from: 90, color: 'green' },
      ],
    }),
    server(
      'Memory',
      'Used, and the limit (`maxmemory`) beyond which writes are refused. From 90 % on a node is sent no new claims.',
      'bytes',
      [
        [ofNode('memory_used_bytes'), '{{node}} used'],
        [ofNode('memory_max_bytes'), '{{node}} max'],
      ],
    ),
    server(
      'Share of memory',
      'Of `maxmemory`. 80 % alerts, from 90 % on (FENCEPOST_NODE_MEMORY_CLAIMS) a node is sent no new claims.',
      'percentunit',
      [[ofNode('memory_used_ratio'), '{{node}}']],
      upFrom(0.8, 0.9),
    ),
    server(
      'Fragmentation',
      'Memory of the process by memory of its data. Means nothing below some 100 MiB.',
      'short',
      [[ofNode('memory_fragmentation_ratio'), '{{node}}']],
      upFrom(1.5, 3),
    ),
    server('Keys evicted and expired', 'A second. Evicted must be none: each may be a record.', 'cps', [
      [rateOfNode('evicted_keys'), '{{node}} evicted'],
      [rateOfNode('expired_keys'), '{{node}} expired'],
    ]),
    server(
      'Clients',
      'Connections: one for each sidecar, and those of operators. Blocked must be none.',
      'short',
      [
        [ofNode('connected_clients'), '{{node}} connected'],
        [ofNode('blocked_clients'), '{{node}} blocked'],
      ],
    ),
    server(
      'Slow commands',
      'Commands that entered the slow log (10 ms by default), a second. While a node works on one, all claims wait. The log of the elected sidecar names each (event `slow_command`).',
      'cps',
      [[rateOfNode('slow_commands'), '{{node}}']],
      NONE_IS_GOOD,
    ),
    server(
      'Longest slow command',
      'Of those that are new in the slow log since the look before (30 s); 0 where none is. Beside the spans of a request it says whether a node stood still then.',
      's',
      [[ofNode('slowest_command_seconds'), '{{node}}']],
      upFrom(0.01, 0.1),
    ),
    server(
      'Length of the slow log',
      'Entries that wait for `SLOWLOG GET` on the node; at most `slowlog-max-len`.',
      'short',
      [[ofNode('slowlog_length'), '{{node}}']],
    ),
    server(
      'Last write of the append-only file',
      '0: the last write failed. No line: the node keeps no such file.',
      'bool',
      [[ofNode('aof_last_write_ok'), '{{node}}']],
      UP,
    ),
  ],
}
