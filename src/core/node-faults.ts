/**
 * What keeps a node from its work: what is seen, and what a person does about it. One table for the log, `/readyz`, `doctor`,
 * `nodes status` and the page; docs/operations/node-faults.md prints it, and each row has a test on a real server.
 *
 * Owns the sentences. Which row a node is at is decided where it is seen: `redis/node-fault.ts`, `redis/inspection.ts`.
 * Each `…` stands for a detail of the case.
 */

type Row = readonly [seen: string, remedy: string]

const CERT = 'FENCEPOST_REDIS_CERT_FILE'
const USE_REDIS = 'use Redis 7.0 or later, or Valkey, by its own address'
const SAME_LOGIN =
  'give FENCEPOST_REDIS_USERNAME and FENCEPOST_REDIS_PASSWORD_FILE, or its URL, what its `ACL LIST` has'
const LATER_VERSION =
  'a later version has taken the cluster over. Run that version here; the way back is in docs/operations/upgrading.md'

export const NODE_FAULTS = {
  // No connection
  not_dialled: ['it was not dialled yet', 'wait'],
  unknown_host: [
    'its host name has no address',
    'set the name right in FENCEPOST_REDIS_NODES, or add it to DNS',
  ],
  no_dns: ['no name server answers for its host name', 'mend the DNS of this machine or pod'],
  refused: ['nothing listens at its address', 'start it, or set its host and port right'],
  no_route: ['no way leads to its address', 'mend the route, the firewall or the network policy'],
  no_connection: [
    'nothing takes the connection within FENCEPOST_REDIS_CONNECT_TIMEOUT',
    'look whether its machine runs, and whether a firewall or a network policy drops packets; where it is only far away, raise that setting',
  ],
  lost: ['its connection ended', 'its log says whether it was stopped or restarted'],
  silent: [
    'it takes connections and answers nothing',
    'its process may be stopped, its clients paused (`CLIENT UNPAUSE`), its machine overloaded, or another program may have its port',
  ],
  closes: [
    'it closes the connection before its first answer',
    'it may speak TLS alone (then write rediss://), or be a proxy (then use the server behind it)',
  ],
  // TLS
  tls_not_spoken: ['it speaks no TLS', 'write redis:// in place of rediss://, or set up `tls-port`'],
  tls_unfinished: [
    'there was a connection, and no TLS handshake within FENCEPOST_REDIS_CONNECT_TIMEOUT',
    'write redis:// where it speaks no TLS; where it is slow, raise that setting',
  ],
  tls_authority: [
    'its certificate is of no known authority',
    'put that authority, and those between, into FENCEPOST_REDIS_CA_FILE',
  ],
  tls_name: [
    'its certificate is not for the host of its URL',
    'use the name that it is for, or issue it for this one',
  ],
  tls_expired: ['its certificate, or that of an authority of it, has expired', 'renew it'],
  tls_not_yet: ['its certificate is not valid yet', 'set the clock of this machine right'],
  tls_own_demanded: [
    `it demands a certificate, and ${CERT} is not set`,
    `set ${CERT} and FENCEPOST_REDIS_KEY_FILE`,
  ],
  tls_own_refused: [
    `it refuses the certificate of ${CERT}`,
    'give one for clients (extended key usage clientAuth) that is valid and signed by its `tls-ca-cert-file`, with the authorities between',
  ],
  tls_own_perhaps: [
    `it closes the connection after the TLS handshake`,
    `it may demand a certificate (${CERT}), or refuse that one; its log says which`,
  ],
  tls_version: [
    'it has no version of TLS or no cipher in common with this sidecar',
    'allow TLS 1.2 or 1.3 on it',
  ],
  tls_failed: ['the TLS handshake failed', 'look at its log'],
  // It answers with an error
  no_password: ['it demands a password', SAME_LOGIN],
  wrong_password: ['it refuses user or password', SAME_LOGIN],
  no_permission: [
    'its user may not do what fencepost needs',
    'give it the rights of docs/operations/nodes.md, "What the node\'s user must be allowed"',
  ],
  no_command: [
    'commands that fencepost needs are disabled or renamed there',
    'take those lines (`rename-command`) out of its configuration',
  ],
  no_database: ['it has no database of that number', 'set its `databases`, or the number in its URL'],
  protected_mode: [
    'it is in protected mode, and takes no connections from other machines',
    'give it users with passwords (and, where its network is closed to all others, `protected-mode no`)',
  ],
  max_clients: [
    'it has as many connections as its `maxclients` allows',
    '`CLIENT LIST` says whose they are: end those, or raise `maxclients` and its limit of open files',
  ],
  loading: ['it is loading its data', 'wait: it is used as soon as they are loaded'],
  busy: [
    'a script or function keeps it busy',
    'wait for its end, or end it with `SCRIPT KILL` or `FUNCTION KILL`',
  ],
  wrong_type: [
    'a key of fencepost has a wrong type there',
    'another program writes to this server: find it with `CLIENT LIST`, end that (docs/operations/security.md, "What one hostile node can and can\'t do")',
  ],
  not_redis: ['what answers at its address is no Redis', 'set its host and port right'],
  error: ['it answers with an error', 'look at its log'],
  // It answers, and takes no writes
  cannot_save: [
    'it takes no writes, because it can not save them',
    'make room on its disk; its log says what failed',
  ],
  few_replicas: [
    'it takes no writes, because replicas are missing',
    'set `min-replicas-to-write 0`: a node needs no replica',
  ],
  no_writes: ['it takes no writes', 'look at its log'],
  // It must not be a node
  other_program: ["it is …, which speaks Redis' protocol and keeps its data by other rules", USE_REDIS],
  no_info: [
    'it does not answer INFO as Redis does',
    `it is a proxy, a stand-in for tests, or has that command renamed: ${USE_REDIS}`,
  ],
  old_redis: ['it is Redis …, and fencepost needs 7.0 or later', 'upgrade it'],
  sentinel: ['it is a Sentinel, which keeps no data', 'use the address of an independent master'],
  cluster_mode: [
    'it is a node of a … Cluster, or a proxy before one, which shares keys out among servers that follow each other',
    'use an independent master',
  ],
  hidden: ['INFO shows no …, so it may be a replica or forget records', 'use a server that shows them'],
  replica: ['its role is …, and a replica loses what was not copied yet', 'use an independent master'],
  evicts: ['its maxmemory-policy is …, which silently forgets records', 'set `maxmemory-policy noeviction`'],
  same_server: ['it is the same server as … (run_id …)', 'make each node a process of its own'],
  later_format: ['its cluster has the format …, and this fencepost works with format …', LATER_VERSION],
  later_incarnation: [
    'its incarnation has the version …, and this fencepost works with version …',
    LATER_VERSION,
  ],
  other_members: [
    'the nodes of its cluster are …, and this configuration has …: majorities of two lists need not meet',
    'give every sidecar the same FENCEPOST_REDIS_NODES (or the same FENCEPOST_REDIS_NODE_NAMES, where addresses differ and the servers do not), or change the list with `fencepost nodes change-members`, and the groups with `fencepost nodes change-groups`',
  ],
  other_name: [
    'it is the node … of this list to sidecars that have used it, and … here',
    'give FENCEPOST_REDIS_NODE_NAMES in the order of FENCEPOST_REDIS_NODES, or set the addresses right. Where the server is to have this name from now on, restart it: it joins under it then',
  ],
  no_groups: [
    'it does not say among which groups its cluster places identities, and this configuration has …',
    'see `fencepost nodes change-groups`',
  ],
  two_clusters: [
    'it belongs to the cluster …, and … to …',
    'a node votes in one cluster only: restart the wrong one empty',
  ],
  other_cluster: ['it belongs to the cluster …, and the nodes that vote to …', 'restart it empty'],
  founded_anew: [
    'it belongs to the cluster …, and this sidecar has worked with …: founded anew beside it, the nodes have forgotten what they promised',
    'find out which cluster is the right one, then restart this sidecar (docs/operations/nodes.md, "Founded anew beside a running sidecar")',
  ],
  // It answers, and its votes do not count
  forgot: [
    'it forgot what it had promised',
    'wait: it rejoins by itself; where it can not be, `fencepost nodes status` says what is left',
  ],
  new: ['it has never joined', 'a new cluster is founded once all of its nodes answer and are fit'],
  clock_unknown: [
    'its clock can not be compared, because too few nodes answer',
    'bring the others back: it is counted as soon as a majority answers',
  ],
  clock_apart: [
    'its clock is not that of a majority of the nodes',
    'synchronise the clocks; it is counted when the longest lease is over',
  ],
  clock_stepped: ['its clock was stepped', 'wait until the longest lease is over; end what sets that clock'],
} as const satisfies Readonly<Record<string, Row>>

export type NodeFault = keyof typeof NODE_FAULTS

/** What is told of a node: a row of the table, with the details of the case. */
export type Trouble = {
  readonly fault: NodeFault
  /** What is seen. */
  readonly reason: string
  /** What to do. */
  readonly remedy: string
}

/** @param details for each `…` of the row; one more is added in parentheses */
export function troubleOf(fault: NodeFault, ...details: readonly string[]): Trouble {
  const [seen, remedy] = NODE_FAULTS[fault]
  let at = 0
  const filled = seen.replaceAll('…', () => details[at++] ?? '…')
  const more = details[at] ?? ''
  return { fault, reason: more === '' ? filled : `${filled} (${more})`, remedy }
}

/** One sentence of both. */
export function sentenceOf({ reason, remedy }: { reason: string; remedy?: string | undefined }): string {
  return remedy === undefined ? reason : `${reason}: ${remedy}`
}
