/**
 * THE table of settings: every name, notation, default, meaning, and where its number comes from.
 *
 * Loading, printing, the JSON Schema and docs/reference/configuration.md all read this table, and the type `Settings`
 * is derived from it: a setting exists once a row exists. Defaults are in an operator's notation and pass through the
 * same parser. `route-fields.ts` has what a route can set for itself; its defaults are the values of this table.
 */

import { listenAddress, nodeNames, redisNodes, upstreamAddress } from './addresses.ts'
import { listeners } from './listeners.ts'
import { peers } from './networks.ts'
import { pageOrigins } from './page-origins.ts'
import {
  choice,
  duration,
  file,
  fraction,
  headerName,
  integer,
  keyRingFile,
  label,
  onOff,
  operatorTokensFile,
  patterned,
  secretFile,
  size,
} from './parse.ts'
import { certificateFile, privateKeyFile } from './pem-files.ts'
import { type Optional, optional, required, type Setting, setting } from './setting.ts'

const MILLISECOND = 1
const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const KIB = 2 ** 10
const MIB = 2 ** 20

export const SETTINGS = {
  // Nodes
  redisNodes: required({
    env: 'FENCEPOST_REDIS_NODES',
    path: 'redis.nodes',
    kind: redisNodes(),
    summary:
      'The independent Redis masters that vote, or several named groups of them, each of which keeps its share of the identities; or `embedded` for five nodes inside the process.',
    source: 'No default: guessing where the memory is would be guessing whether there is one.',
  }),
  redisNodeNames: optional({
    env: 'FENCEPOST_REDIS_NODE_NAMES',
    path: 'redis.nodeNames',
    kind: nodeNames(),
    summary:
      'What all sidecars call the nodes, in the order of the addresses, group after group: only where they reach the same servers by different ones.',
    source:
      'Otherwise host:port of each address, which stands on the nodes, so that sidecars with different nodes are found.',
  }),
  redisUsername: optional({
    env: 'FENCEPOST_REDIS_USERNAME',
    path: 'redis.username',
    kind: label(),
    summary: 'ACL user on every node whose URL names none.',
    source: 'Redis then uses its user `default`.',
  }),
  redisPassword: optional({
    env: 'FENCEPOST_REDIS_PASSWORD_FILE',
    path: 'redis.passwordFile',
    kind: file(),
    summary:
      'File with the password for every node whose URL has none; a line break at its end is ignored. Connections that are made a second after a change have the new one.',
    source: 'A mounted secret does not show in the environment of the process.',
  }),
  redisCa: optional({
    env: 'FENCEPOST_REDIS_CA_FILE',
    path: 'redis.caFile',
    kind: certificateFile(),
    summary:
      'PEM file with the certificate authorities that `rediss://` nodes are verified against; a change is in force for new connections within a second.',
    source: 'Without it Node’s own list is used.',
  }),
  redisCert: optional({
    env: 'FENCEPOST_REDIS_CERT_FILE',
    path: 'redis.certFile',
    kind: certificateFile(),
    summary:
      'PEM file with the certificate that is shown to `rediss://` nodes, and its chain; a change is in force for new connections within a second.',
    source: 'Redis demands one of its clients unless it says `tls-auth-clients no`.',
  }),
  redisKey: optional({
    env: 'FENCEPOST_REDIS_KEY_FILE',
    path: 'redis.keyFile',
    kind: privateKeyFile(),
    summary: 'PEM file with the private key of that certificate.',
    source: 'Given with the certificate.',
  }),
  nodeDeadlineMs: setting({
    env: 'FENCEPOST_NODE_DEADLINE',
    path: 'redis.nodeDeadline',
    kind: duration({ minMs: 5 * MILLISECOND, maxMs: 10 * SECOND }),
    default: '80ms',
    summary: 'How long one node may take for one command before it counts as not having answered.',
    source:
      'Below the claim budget of 100ms, so that a slow node can’t use it up; at most 5 % of the lease, as Redlock asks.',
  }),
  nodeMemoryClaims: setting({
    env: 'FENCEPOST_NODE_MEMORY_CLAIMS',
    path: 'redis.memoryClaims',
    kind: fraction(),
    default: '0.9',
    summary:
      'Share of a node’s `maxmemory` that new claims may fill; the rest is for the outcomes of what was granted.',
    source:
      'A node is looked at once a second: a tenth of half a gigabyte is what a hundred requests a second with answers of 100 KB take in five.',
  }),
  redisConnectTimeoutMs: setting({
    env: 'FENCEPOST_REDIS_CONNECT_TIMEOUT',
    path: 'redis.connectTimeout',
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: 30 * SECOND }),
    default: '90ms',
    summary: 'How long connecting to one node may take.',
    source: 'Below 100ms within one region; raise it where nodes are further away or TLS is slow.',
  }),

  // Listeners and the application
  proxyListen: setting({
    env: 'FENCEPOST_PROXY_LISTEN',
    path: 'listen.proxy',
    kind: listenAddress(),
    default: '0.0.0.0:8080',
    summary: 'Where the proxy listens.',
    source: 'Clients come from outside the pod.',
  }),
  apiListen: setting({
    env: 'FENCEPOST_API_LISTEN',
    path: 'listen.api',
    kind: listenAddress(),
    default: '127.0.0.1:8081',
    summary: 'Where the reservation API listens.',
    source: 'For the application in the same pod only.',
  }),
  gatewayListen: setting({
    env: 'FENCEPOST_GATEWAY_LISTEN',
    path: 'listen.gateway',
    kind: listenAddress(),
    default: 'off',
    summary: 'Where gateways ask whether a request may go on (Envoy, nginx, HAProxy, Caddy, Kong, Traefik).',
    source: 'Few have a gateway that asks; the proxy needs none.',
  }),
  gatewayGrpcListen: setting({
    env: 'FENCEPOST_GATEWAY_GRPC_LISTEN',
    path: 'listen.gatewayGrpc',
    kind: listenAddress(),
    default: 'off',
    summary: 'Where Envoy asks over gRPC (ext_authz, ext_proc); of TLS it is the gateway listener.',
    source: 'gRPC needs HTTP/2, which no other listener speaks.',
  }),
  adminListen: setting({
    env: 'FENCEPOST_ADMIN_LISTEN',
    path: 'listen.admin',
    kind: listenAddress(),
    default: '0.0.0.0:9090',
    summary: 'Where probes and metrics are served.',
    source: 'The kubelet and Prometheus come from outside the pod.',
  }),
  operatorListen: setting({
    env: 'FENCEPOST_OPERATOR_LISTEN',
    path: 'listen.operator',
    kind: listenAddress(),
    default: 'off',
    summary:
      'Where operators find single records and decide about them (docs/operations/one-key.md); on this machine alone, or with TLS.',
    source: 'A decision can make a request run again: it is opened where somebody is to decide.',
  }),
  upstream: optional({
    env: 'FENCEPOST_UPSTREAM',
    path: 'upstream.address',
    kind: upstreamAddress(),
    summary:
      'The application behind the proxy, and no address of fencepost itself; required unless the proxy is off.',
    source: 'The target is fixed here and never taken from a request.',
  }),
  upstreamHost: setting({
    env: 'FENCEPOST_UPSTREAM_HOST',
    path: 'upstream.host',
    kind: choice('client', 'application'),
    default: 'client',
    summary: "What the application reads in Host: the client's host, or its own address.",
    source: 'Applications compare it with Origin, and build links and redirects of it.',
  }),
  upstreamConnectTimeoutMs: setting({
    env: 'FENCEPOST_UPSTREAM_CONNECT_TIMEOUT',
    path: 'upstream.connectTimeout',
    kind: duration({ minMs: MILLISECOND, maxMs: MINUTE }),
    default: '1s',
    summary:
      'How long connecting to the application may take; beyond it nothing was sent and a retry is safe.',
    source: 'The application is in the same pod: a second means that it is not listening.',
  }),
  upstreamTimeoutMs: setting({
    env: 'FENCEPOST_UPSTREAM_TIMEOUT',
    path: 'upstream.timeout',
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: HOUR }),
    default: '60s',
    summary:
      'How long the application may take: for its whole answer to a protected request, for the head of any other; a route may say otherwise.',
    source: 'The default of nginx (`proxy_read_timeout`).',
  }),
  upstreamBodyTimeoutMs: setting({
    env: 'FENCEPOST_UPSTREAM_BODY_TIMEOUT',
    path: 'upstream.bodyTimeout',
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: HOUR }),
    default: '60s',
    summary: 'Longest silence of the application between two parts of the body of its answer.',
    source: 'The same as for the head.',
  }),
  upstreamConnections: setting({
    env: 'FENCEPOST_UPSTREAM_CONNECTIONS',
    path: 'upstream.connections',
    kind: integer({ min: 1, max: 10_000 }),
    default: '256',
    summary:
      'Largest number of connections to the application; requests that no route protects take at most three quarters of them.',
    source: 'A quarter of the limit of requests in flight: most of them wait for nodes or for others.',
  }),
  upstreamKeepAliveMs: setting({
    env: 'FENCEPOST_UPSTREAM_KEEP_ALIVE',
    path: 'upstream.keepAlive',
    kind: duration({ minMs: MILLISECOND, maxMs: HOUR }),
    default: '4s',
    summary:
      'How long an idle connection to the application is kept; for less, where the application says less.',
    source: 'Below the 5s after which a Node server closes idle connections, so that it is we who close.',
  }),

  // Namespace
  env: setting({
    env: 'FENCEPOST_ENV',
    path: 'scope.env',
    kind: label(),
    default: 'default',
    summary: 'Environment part of the namespace of every record.',
    source: 'One set of nodes may serve several environments.',
  }),
  apiVersion: setting({
    env: 'FENCEPOST_API_VERSION',
    path: 'scope.apiVersion',
    kind: label(),
    default: 'v1',
    summary: 'API version where the request carries none.',
    source: 'Two versions of an API may give one key two meanings.',
  }),
  tenant: setting({
    env: 'FENCEPOST_TENANT',
    path: 'scope.tenant',
    kind: label(),
    default: 'default',
    summary: 'Tenant where the request carries none.',
    source: 'For applications with a single tenant.',
  }),
  tenantHeader: setting({
    env: 'FENCEPOST_TENANT_HEADER',
    path: 'scope.tenantHeader',
    kind: headerName(),
    default: 'x-tenant-id',
    summary: 'Header that carries the tenant.',
    source: 'Common usage.',
  }),
  versionHeader: setting({
    env: 'FENCEPOST_VERSION_HEADER',
    path: 'scope.versionHeader',
    kind: headerName(),
    default: 'x-api-version',
    summary: 'Header that carries the API version.',
    source: 'Common usage.',
  }),
  clientHeader: setting({
    env: 'FENCEPOST_CLIENT_HEADER',
    path: 'scope.clientHeader',
    kind: headerName(),
    default: 'x-client-id',
    summary:
      'Header that names the client of a request without Authorization, which would be anonymous otherwise (of a trusted peer, where `trust.scopeHeaders` is on).',
    source: 'Common usage.',
  }),

  // Records
  leaseMs: setting({
    env: 'FENCEPOST_LEASE',
    path: 'record.lease',
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: HOUR }),
    default: '30s',
    summary: 'Processing lease, renewed while the application works: how soon a dead holder is replaced.',
    source:
      'Long enough for two failed renewals and a pause of the process, short enough for a client’s retry.',
  }),
  retentionMs: setting({
    env: 'FENCEPOST_RETENTION',
    path: 'record.retention',
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: 366 * DAY }),
    default: '24h',
    summary: 'How long a completed record answers duplicates.',
    source: 'What Stripe documents for its idempotency keys.',
  }),
  claimBudgetMs: setting({
    env: 'FENCEPOST_CLAIM_BUDGET',
    path: 'record.claimBudget',
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: 30 * SECOND }),
    default: '100ms',
    summary: 'Time for all rounds of one claim together, retries included.',
    source: 'What a request may wait for its lock before 503 is the better answer.',
  }),
  settleBudgetMs: setting({
    env: 'FENCEPOST_SETTLE_BUDGET',
    path: 'record.settleBudget',
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: MINUTE }),
    default: '2s',
    summary:
      'How long a client waits for its outcome to be recorded before it gets its answer marked `unstored`.',
    source: 'Longer than a leader change of a network path, shorter than what a client takes for a failure.',
  }),
  renewFraction: setting({
    env: 'FENCEPOST_RENEW_FRACTION',
    path: 'record.renewFraction',
    kind: fraction(),
    default: '1/3',
    summary: 'Share of its validity after which a lease is renewed, or up to a tenth of that earlier.',
    source: 'A third: two renewals in a row may fail. Less is more rounds, and more that may fail.',
  }),
  totalHoldMs: setting({
    env: 'FENCEPOST_TOTAL_HOLD',
    path: 'record.totalHold',
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: DAY }),
    default: '5m',
    summary: 'How long one request may hold its record, renewals included.',
    source: 'Above the upstream timeout; it bounds what an application that never answers can keep.',
  }),
  clientRetryWindowMs: setting({
    env: 'FENCEPOST_CLIENT_RETRY_WINDOW',
    path: 'record.clientRetryWindow',
    kind: duration({ minMs: 0, maxMs: 366 * DAY }),
    default: '2m',
    summary: 'How long clients retry; retentions must cover it.',
    source: 'Above the total of the default retries of the usual HTTP clients and SDKs.',
  }),
  longestRedeliveryMs: setting({
    env: 'FENCEPOST_LONGEST_REDELIVERY',
    path: 'record.longestRedelivery',
    kind: duration({ minMs: 0, maxMs: 366 * DAY }),
    default: '0s',
    summary: 'After which time a message broker in front may still deliver again; retentions must cover it.',
    source: 'No broker is assumed.',
  }),
  mode: setting({
    env: 'FENCEPOST_MODE',
    path: 'mode',
    kind: choice('enforce', 'observe'),
    default: 'enforce',
    summary:
      'With `observe` no route protects: every request is executed, and what the routes would have done is counted (`fencepost observe report`).',
    source: 'A sidecar that protects nothing unless it is told to would be mistaken for one that does.',
  }),
  onQuorumLoss: setting({
    env: 'FENCEPOST_ON_QUORUM_LOSS',
    path: 'record.onQuorumLoss',
    kind: choice('fail-closed', 'fail-open', 'local'),
    default: 'fail-closed',
    summary: 'What happens while fewer than a majority of the nodes answer.',
    source: 'Without a majority nobody knows whether a request was carried out.',
  }),
  quarantineMs: optional({
    env: 'FENCEPOST_QUARANTINE',
    path: 'record.quarantine',
    kind: duration({ minMs: 0, maxMs: DAY }),
    summary: 'How long a node that lost its memory does not vote.',
    source: 'Where not set: longest lease · (1 + drift) + clock step, computed from this configuration.',
  }),
  reservationsPerSession: setting({
    env: 'FENCEPOST_RESERVATIONS_PER_SESSION',
    path: 'reservations.perSession',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: '1000',
    summary:
      'Largest number of reservations that one session holds through one sidecar; beyond it the answer is 429.',
    source: 'A session is one piece of work: far more than any takes, far less than what fills the memory.',
  }),
  sweepIntervalMs: setting({
    env: 'FENCEPOST_SWEEP_INTERVAL',
    path: 'coordination.sweepInterval',
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: DAY }),
    default: '60s',
    summary: 'How often the elected sidecar looks for claims that lapsed without an outcome.',
    source: 'Twice the default lease: an orphan is seen within three leases.',
  }),
  nodeCollectionIntervalMs: setting({
    env: 'FENCEPOST_NODE_COLLECTION_INTERVAL',
    path: 'coordination.nodeCollectionInterval',
    kind: duration({ minMs: 0, maxMs: HOUR }),
    default: '30s',
    summary:
      'How often the elected sidecar asks each node for memory, evictions, clients and slow log; 0s: never, and the alerts and panels about them have no data.',
    source:
      'What it shows changes within minutes. One sidecar of a cluster asks, three small commands a node.',
  }),
  settlePath: optional({
    env: 'FENCEPOST_SETTLE_PATH',
    path: 'coordination.settlePath',
    kind: patterned('a path that begins with a slash', /^\/[\x21-\x7e]{0,255}$/),
    summary:
      'Path of the application that is asked (POST) what became of a claim that lapsed without an outcome.',
    source: 'Without it such claims are only written down as dead letters.',
  }),
  reservationMaxLeaseMs: setting({
    env: 'FENCEPOST_RESERVATION_MAX_LEASE',
    path: 'reservations.maxLease',
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: HOUR }),
    default: '60s',
    summary: 'Longest lease that a caller of the reservation API may ask for.',
    source: 'It bounds the quarantine; longer work extends its lease.',
  }),

  // Clocks
  tokenAheadMs: setting({
    env: 'FENCEPOST_CLOCK_TOKEN_AHEAD',
    path: 'clock.tokenAhead',
    kind: duration({ minMs: 0, maxMs: HOUR }),
    default: '10s',
    summary: 'How far ahead of a node’s clock a token may be before the node refuses it.',
    source: 'Far above the skew of any synchronised clock; one wild clock can’t poison a key for longer.',
  }),
  clockMaxSkewMs: setting({
    env: 'FENCEPOST_CLOCK_MAX_SKEW',
    path: 'clock.maxSkew',
    kind: duration({ minMs: MILLISECOND, maxMs: HOUR }),
    default: '50ms',
    summary: 'Tolerated offset between a node’s clock and ours.',
    source: 'Well above what NTP keeps within a region, and above half a round trip.',
  }),
  clockStepMs: setting({
    env: 'FENCEPOST_CLOCK_STEP',
    path: 'clock.step',
    kind: duration({ minMs: 0, maxMs: HOUR }),
    default: '1s',
    summary:
      'Step of a node’s clock that is tolerated: the quarantine allows for it, and a node whose clock leaps further ahead is enrolled anew.',
    source:
      'chrony steps only above its `makestep` threshold, 1s in the configuration that distributions ship.',
  }),
  clockEnforce: setting({
    env: 'FENCEPOST_CLOCK_ENFORCE',
    path: 'clock.enforce',
    kind: onOff(),
    default: 'off',
    summary:
      'Refuse claims, before any node is asked, while the offset of a majority is above the tolerated one, instead of reporting it.',
    source:
      'Off: tokens and outcomes need no clock, so a constant offset makes nothing wrong, and refusing would make a fault of NTP an outage.',
  }),

  // Limits
  maxInFlight: setting({
    env: 'FENCEPOST_MAX_IN_FLIGHT',
    path: 'limits.inFlight',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: '1024',
    summary:
      'Largest number of requests under way in this process, three quarters of it for those that no route protects; beyond it the answer is 503.',
    source:
      'With bodies of 64KiB on average it is 64MiB, a sixth of the 384MiB that the manifests give the container.',
  }),
  tenantInFlight: setting({
    env: 'FENCEPOST_TENANT_IN_FLIGHT',
    path: 'limits.tenantInFlight',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: '1024',
    summary: 'Largest number of protected requests of one tenant under way in this process; beyond it 429.',
    source:
      'The same as for all together, because many applications have a single tenant; lower it where tenants share.',
  }),
  tenantNewRecords: setting({
    env: 'FENCEPOST_TENANT_NEW_RECORDS',
    path: 'limits.tenantNewRecords',
    kind: integer({ min: 1, max: 10_000_000 }),
    default: '10000',
    summary:
      'Largest number of new records that one tenant makes within a second through this process; beyond it 429.',
    source: 'Above what one sidecar can claim on five nodes; lower it where tenants share the nodes.',
  }),
  bodyLimitBytes: setting({
    env: 'FENCEPOST_BODY_LIMIT',
    path: 'limits.body',
    kind: size({ minBytes: 0, maxBytes: 1024 * MIB }),
    default: '1MiB',
    summary: 'Largest request body that is buffered; beyond it the answer is 413.',
    source: 'The default of nginx (`client_max_body_size`) and Fastify (`bodyLimit`).',
  }),
  bodyMemoryBytes: optional({
    env: 'FENCEPOST_BODY_MEMORY',
    path: 'limits.bodyMemory',
    kind: size({ minBytes: 64 * KIB, maxBytes: 1024 * 1024 * MIB }),
    summary:
      'Memory for the bodies of all requests and answers under way; requests may fill three quarters of it, beyond which the answer is 503.',
    source:
      'Otherwise a sixth of the memory limit of the container, 64MiB of 384MiB (docs/operations/capacity.md has the measurement), and 256MiB without a limit; at least enough for one body of the largest that a route accepts.',
  }),
  storedResponseLimitBytes: setting({
    env: 'FENCEPOST_STORED_RESPONSE_LIMIT',
    path: 'limits.storedResponse',
    kind: size({ minBytes: 0, maxBytes: 64 * MIB }),
    default: '256KiB',
    summary: 'Largest response body that is stored; beyond it a tombstone is, and duplicates get 410.',
    source: 'Five copies for a whole retention: 4,000 of them are 1GiB on every node.',
  }),
  outcomeCacheBytes: setting({
    env: 'FENCEPOST_OUTCOME_CACHE',
    path: 'limits.outcomeCache',
    kind: size({ minBytes: 0, maxBytes: 64 * 1024 * MIB }),
    default: '16MiB',
    summary:
      'Memory for recorded outcomes, so that their duplicates are answered without asking the nodes; 0 is none.',
    source: 'Some 10,000 answers of 1KiB: a retry mostly comes within seconds, through the same pod.',
  }),
  waitMaxMs: setting({
    env: 'FENCEPOST_WAIT_MAX',
    path: 'limits.wait',
    kind: duration({ minMs: 0, maxMs: HOUR }),
    default: '10s',
    summary: 'How long a concurrent duplicate waits for the first, on routes that wait.',
    source: 'A third of the lease, below the usual timeout of clients.',
  }),
  maxWaiters: setting({
    env: 'FENCEPOST_MAX_WAITERS',
    path: 'limits.waiters',
    kind: integer({ min: 0, max: 1_000_000 }),
    default: '256',
    summary: 'Largest number of waiting duplicates of one route; beyond it the answer is 429.',
    source: 'A quarter of the requests in flight, so that waiting can’t starve working.',
  }),
  headersTimeoutMs: setting({
    env: 'FENCEPOST_HEADERS_TIMEOUT',
    path: 'limits.headersTimeout',
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: HOUR }),
    default: '10s',
    summary: 'How long a client may take to send the head of a request.',
    source: 'Slow senders hold connections; Node’s own limit is 60s.',
  }),
  requestTimeoutMs: setting({
    env: 'FENCEPOST_REQUEST_TIMEOUT',
    path: 'limits.requestTimeout',
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: DAY }),
    default: '60s',
    summary:
      'How long a client may take to send a whole request; how long it may be silent in a body that is passed on as it arrives.',
    source: 'The default of nginx for a silent body (`client_body_timeout`).',
  }),
  keepAliveTimeoutMs: setting({
    env: 'FENCEPOST_KEEP_ALIVE_TIMEOUT',
    path: 'limits.keepAlive',
    kind: duration({ minMs: MILLISECOND, maxMs: DAY }),
    default: '72s',
    summary: 'How long an idle connection of a client is kept.',
    source: 'Above the 60s of the usual load balancers, so that it is they who close.',
  }),
  headerLimitBytes: setting({
    env: 'FENCEPOST_HEADER_LIMIT',
    path: 'limits.headers',
    kind: size({ minBytes: KIB, maxBytes: MIB }),
    default: '16KiB',
    summary: 'Largest head of a request; beyond it the answer is 431.',
    source: 'Node’s default (`--max-http-header-size`).',
  }),
  headerLinesMax: setting({
    env: 'FENCEPOST_HEADER_LINES',
    path: 'limits.headerLines',
    kind: integer({ min: 10, max: 1_000 }),
    default: '200',
    summary: 'Largest number of header lines of a request; beyond it the answer is 431.',
    source: 'Node drops lines after the thousandth without a word, and with them the idempotency key.',
  }),
  connectionsMax: optional({
    env: 'FENCEPOST_CONNECTIONS',
    path: 'limits.connections',
    kind: integer({ min: 1, max: 1_000_000 }),
    summary:
      'Largest number of connections of clients to one listener; beyond it new ones are closed at once.',
    source:
      'Otherwise as many as fit into a third of the memory limit of the container, at 32KiB each, or 96KiB with a certificate: 4096 or 1365 of 384MiB (docs/operations/capacity.md has the measurement); 20000 without a limit, and at most.',
  }),
  requestsPerConnection: setting({
    env: 'FENCEPOST_REQUESTS_PER_CONNECTION',
    path: 'limits.requestsPerConnection',
    kind: integer({ min: 1, max: 1_000_000_000 }),
    default: '100000',
    summary: 'After how many requests a connection of a client is closed.',
    source: 'Often enough that load spreads over new pods, rarely enough to cost nothing.',
  }),
  readerIdleMs: setting({
    env: 'FENCEPOST_READER_IDLE',
    path: 'limits.readerIdle',
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: HOUR }),
    default: '30s',
    summary: 'How long a client may read nothing of its answer before its connection is cut.',
    source: 'Slow readers hold memory; the default of HAProxy examples (`timeout client`).',
  }),
  drainTimeoutMs: setting({
    env: 'FENCEPOST_DRAIN_TIMEOUT',
    path: 'limits.drain',
    kind: duration({ minMs: 0, maxMs: HOUR }),
    default: '25s',
    summary: 'How long SIGTERM waits for requests under way.',
    source: 'Below the 30s that Kubernetes grants by default (`terminationGracePeriodSeconds`).',
  }),

  // Trust
  apiToken: optional({
    env: 'FENCEPOST_API_TOKEN_FILE',
    path: 'trust.apiTokenFile',
    kind: file(),
    summary:
      'File with the bearer token that callers of the reservation API must show; of several lines each is one, and a change is in force within a second. Required where the API listens on more than localhost.',
    source: 'Not needed while it listens on localhost only.',
  }),
  operatorTokens: optional({
    env: 'FENCEPOST_OPERATOR_TOKENS_FILE',
    path: 'trust.operatorTokensFile',
    kind: operatorTokensFile(),
    summary:
      'File that says who may call the operator listener, `name role token` a line, role `view` or `operate`; a change is in force within a second. Required where that listener is on.',
    source: 'The audit log names the person or tool of each decision.',
  }),
  reservationSecret: optional({
    env: 'FENCEPOST_RESERVATION_SECRET_FILE',
    path: 'trust.reservationSecretFile',
    kind: secretFile(),
    summary:
      'File with the secret that signs reservation ids, the same for all sidecars of a cluster; with several lines the first signs and the others still verify. A change is in force within a second.',
    source:
      'Where not set: the sidecars agree on one through the nodes, and whoever reads the nodes can read it.',
  }),
  keyRing: optional({
    env: 'FENCEPOST_KEY_RING_FILE',
    path: 'trust.keyRingFile',
    kind: keyRingFile(),
    summary:
      'File with the keys that stored outcomes are encrypted with (AES-256-GCM), one a line, `name base64`: the first line writes, all of them read. The line `plain` stands for no encryption, as before there was a file. A change is in force within a second.',
    source: 'Without it outcomes are stored as they are.',
  }),
  trustScopeHeaders: setting({
    env: 'FENCEPOST_TRUST_SCOPE_HEADERS',
    path: 'trust.scopeHeaders',
    kind: onOff(),
    default: 'on',
    summary: 'Take tenant, API version and client from the headers of the request.',
    source: 'A gateway sets them; switch it off where clients could.',
  }),
  trustedPeers: setting({
    env: 'FENCEPOST_TRUSTED_PEERS',
    path: 'trust.peers',
    kind: peers(),
    default: 'any',
    summary:
      'Peers of the proxy whose headers of tenant, version, client and origin (X-Forwarded-*, Forwarded, X-Real-IP) are believed; from others they are dropped.',
    source: 'In a pod only the ingress reaches the proxy; name its addresses where others can.',
  }),
  forwardedHeaders: setting({
    env: 'FENCEPOST_FORWARDED_HEADERS',
    path: 'trust.forwardedHeaders',
    kind: choice('append', 'replace', 'off'),
    default: 'append',
    summary: 'What is done with X-Forwarded-For, -Proto and -Host on the way to the application.',
    source: 'A sidecar stands behind an ingress that has set them.',
  }),
  pageOrigins: setting({
    env: 'FENCEPOST_PAGE_ORIGINS',
    path: 'trust.pageOrigins',
    kind: pageOrigins(),
    default: 'none',
    summary:
      'Origins whose pages may read what the proxy answers in its own words (CORS); answers of the application allow whom the application says.',
    source: 'Pages of the same origin need none. Which others there are only the application knows.',
  }),

  // TLS
  requireTls: setting({
    env: 'FENCEPOST_REQUIRE_TLS',
    path: 'tls.require',
    kind: onOff(),
    default: 'off',
    summary:
      'Refuse to start while a node, a listener or the application would speak in clear text beyond this machine.',
    source: 'Behind a mesh that encrypts, clear text is what a sidecar has to speak.',
  }),
  tlsListeners: setting({
    env: 'FENCEPOST_TLS_LISTENERS',
    path: 'tls.listeners',
    kind: listeners(),
    default: 'proxy',
    summary: 'Which listeners speak TLS where a certificate is given; clients in plain text are cut.',
    source: 'The API is for the same pod, and probes of the kubelet have no certificate.',
  }),
  tlsCert: optional({
    env: 'FENCEPOST_TLS_CERT_FILE',
    path: 'tls.certFile',
    kind: certificateFile(),
    summary: 'PEM file with the certificate and its chain; a change is in force within a second.',
    source: 'Not needed behind a gateway or a mesh that encrypts.',
  }),
  tlsKey: optional({
    env: 'FENCEPOST_TLS_KEY_FILE',
    path: 'tls.keyFile',
    kind: privateKeyFile(),
    summary: 'PEM file with the private key of the certificate.',
    source: 'Given with the certificate.',
  }),
  tlsClientCa: optional({
    env: 'FENCEPOST_TLS_CLIENT_CA_FILE',
    path: 'tls.clientCaFile',
    kind: certificateFile(),
    summary:
      'PEM file with the authorities that the certificates of clients are verified against; a client without one is cut.',
    source: 'Without it clients show no certificate.',
  }),

  // Operations
  instance: optional({
    env: 'FENCEPOST_INSTANCE',
    path: 'instance',
    kind: label(),
    summary: 'Name of this sidecar in logs, traces and elections, such as the name of its pod.',
    source: 'Where not set: the host name, which in Kubernetes is the name of the pod.',
  }),
  runbookUrl: setting({
    env: 'FENCEPOST_RUNBOOK_URL',
    path: 'runbookUrl',
    kind: patterned('http://… or https://… without # and spaces', /^https?:\/\/[^\s#]+$/),
    default: 'https://fencepost.dev/runbooks',
    summary:
      'Where you publish docs/operations/runbooks.md: the operator listener links to its sections, each by the name of its alert in lower case behind a #.',
    source:
      'The one that the shipped alerts link to; an address of your own works where yours is reached and that is not.',
  }),
  logLevel: setting({
    env: 'FENCEPOST_LOG_LEVEL',
    path: 'logs.level',
    kind: choice('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    default: 'info',
    summary: 'Least severe log line that is written.',
    source: 'The levels of pino.',
  }),
  logRawKeys: setting({
    env: 'FENCEPOST_LOG_RAW_KEYS',
    path: 'logs.rawKeys',
    kind: onOff(),
    default: 'off',
    summary: 'Log idempotency keys as they are instead of their hash.',
    source: 'A key may be a customer’s order number.',
  }),
  logDecisionsPerSecond: setting({
    env: 'FENCEPOST_LOG_DECISIONS',
    path: 'logs.decisionsPerSecond',
    kind: integer({ min: 0, max: 1_000_000 }),
    default: '100',
    summary: 'Most lines a second about decisions that went well; what is left out is counted and said.',
    source: 'A line costs some 10 µs: a thousandth of a core.',
  }),
  tracing: setting({
    env: 'FENCEPOST_TRACING',
    path: 'tracing.enabled',
    kind: onOff(),
    default: 'off',
    summary: 'Send traces; where to is told by the standard `OTEL_*` variables.',
    source: 'A collector is not assumed.',
  }),
  traceSampleRatio: setting({
    env: 'FENCEPOST_TRACE_SAMPLE_RATIO',
    path: 'tracing.sampleRatio',
    kind: fraction(),
    default: '0.1',
    summary: 'Share of traces begun here that is recorded; a caller’s decision is followed.',
    source: 'Ten in a hundred show the shape of the latency at a tenth of the cost.',
  }),
  traceNodeSpans: setting({
    env: 'FENCEPOST_TRACE_NODE_SPANS',
    path: 'tracing.nodeSpans',
    kind: onOff(),
    default: 'off',
    summary: 'One span for each node of each round.',
    source: 'Five times the spans.',
  }),
  traceBaggage: setting({
    env: 'FENCEPOST_TRACE_BAGGAGE',
    path: 'tracing.baggage',
    kind: onOff(),
    default: 'off',
    summary:
      'Add lock id and key hash to the W3C baggage that goes to the application and back to callers of the API.',
    source: 'Baggage travels on to whomever the application calls.',
  }),
  quorumGate: setting({
    env: 'FENCEPOST_READINESS_QUORUM_GATE',
    path: 'readiness.quorumGate',
    kind: choice('auto', 'enforce', 'report'),
    default: 'auto',
    summary:
      'Whether a lost quorum makes the pod unready, or is only reported. `auto`: it is only reported where a route goes on without one (`onQuorumLoss` other than `fail-closed`).',
    source: 'A Service sends nothing to an unready pod, also not what needs no quorum.',
  }),
  latencyGate: setting({
    env: 'FENCEPOST_READINESS_LATENCY_GATE',
    path: 'readiness.latencyGate',
    kind: choice('enforce', 'report'),
    default: 'enforce',
    summary: 'Whether slow claims make the pod unready, or are only reported.',
    source: 'All pods share the nodes: choose `report` where unready pods are worse than slow ones.',
  }),
  unreadyAboveMs: setting({
    env: 'FENCEPOST_READINESS_UNREADY_ABOVE',
    path: 'readiness.unreadyAbove',
    kind: duration({ minMs: MILLISECOND, maxMs: MINUTE }),
    default: '150ms',
    summary: 'The p95 of claims above which the pod becomes unready, three evaluations in a row.',
    source: 'One and a half claim budgets.',
  }),
  readyBelowMs: setting({
    env: 'FENCEPOST_READINESS_READY_BELOW',
    path: 'readiness.readyBelow',
    kind: duration({ minMs: MILLISECOND, maxMs: MINUTE }),
    default: '120ms',
    summary: 'The p95 of claims below which it becomes ready again.',
    source: 'A fifth below the other threshold, so that it does not flap.',
  }),
  readinessWindowMs: setting({
    env: 'FENCEPOST_READINESS_WINDOW',
    path: 'readiness.window',
    kind: duration({ minMs: SECOND, maxMs: HOUR }),
    default: '60s',
    summary: 'Over which time the p95 is taken.',
    source: 'Twelve evaluations of 5s.',
  }),
  readinessMinSamples: setting({
    env: 'FENCEPOST_READINESS_MIN_SAMPLES',
    path: 'readiness.minSamples',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: '20',
    summary: 'Fewest claims in the window for its p95 to mean anything.',
    source: 'The least number of which one is 5 %.',
  }),
  minUnreadyMs: setting({
    env: 'FENCEPOST_READINESS_MIN_UNREADY',
    path: 'readiness.minUnready',
    kind: duration({ minMs: 0, maxMs: HOUR }),
    default: '15s',
    summary: 'Shortest time that the pod stays unready, ± 20 % at random.',
    source: 'Three periods of the readiness probe, spread so that pods do not return together.',
  }),
} satisfies Record<string, Omit<Setting<unknown>, 'kind'>>

type ValueOf<S> = S extends Optional<infer T> ? T | undefined : S extends Setting<infer T> ? T : never

export type SettingKey = keyof typeof SETTINGS
export type Settings = { readonly [K in SettingKey]: ValueOf<(typeof SETTINGS)[K]> }

export const SETTING_KEYS = Object.keys(SETTINGS) as readonly SettingKey[]

/** A row, for code that treats all rows alike. */
export function rowOf(key: SettingKey): Setting<unknown> {
  return SETTINGS[key] as unknown as Setting<unknown>
}

/** Read first, from the environment only: it names the file with the other settings. */
export const CONFIG_FILE_ENV = 'FENCEPOST_CONFIG'

/** Variables with our prefix that other programs read: the client library. */
export const NAMES_OF_OTHERS: readonly string[] = ['FENCEPOST_URL']
