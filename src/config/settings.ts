/**
 * THE table of settings: every name, notation, default, meaning, and where its number comes from.
 *
 * Loading, printing, the JSON Schema and docs/reference/configuration.md all read this table, and the type `Settings`
 * is derived from it: a setting exists once a row exists. Defaults are in an operator's notation and pass through the
 * same parser. `route-fields.ts` has what a route can set for itself; its defaults are the values of this table.
 */

import { listenAddress, nodeNames, redisNodes, upstreamAddress } from './addresses.ts'
import { listeners, pageOrigins, peers } from './lists.ts'
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
import { type Optional, optional, required, type Setting, setting } from './value.ts'

const MILLISECOND = 1
const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const KIB = 2 ** 10
const MIB = 2 ** 20

export const SETTINGS = {
  // Nodes
  redisNodes: required('FENCEPOST_REDIS_NODES', 'redis.nodes', {
    kind: redisNodes(),
    summary:
      'The independent Redis masters that vote, or several named groups of them, each of which keeps its share of the identities; or `embedded` for five nodes inside the process.',
    source: 'No default: guessing where the memory is would be guessing whether there is one.',
  }),
  redisNodeNames: optional('FENCEPOST_REDIS_NODE_NAMES', 'redis.nodeNames', {
    kind: nodeNames(),
    summary:
      'What all sidecars call the nodes, in the order of the addresses, group after group: only where they reach the same servers by different ones.',
    source:
      'Otherwise host:port of each address, which stands on the nodes, so that sidecars with different nodes are found.',
  }),
  redisUsername: optional('FENCEPOST_REDIS_USERNAME', 'redis.username', {
    kind: label(),
    summary: 'ACL user on every node whose URL names none.',
    source: 'Redis then uses its user `default`.',
  }),
  redisPassword: optional('FENCEPOST_REDIS_PASSWORD_FILE', 'redis.passwordFile', {
    kind: file(),
    summary:
      'File with the password for every node whose URL has none; a line break at its end is ignored. Connections that are made a second after a change have the new one.',
    source: 'A mounted secret does not show in the environment of the process.',
  }),
  redisCa: optional('FENCEPOST_REDIS_CA_FILE', 'redis.caFile', {
    kind: certificateFile(),
    summary:
      'PEM file with the certificate authorities that `rediss://` nodes are verified against; a change is in force for new connections within a second.',
    source: 'Without it Node’s own list is used.',
  }),
  redisCert: optional('FENCEPOST_REDIS_CERT_FILE', 'redis.certFile', {
    kind: certificateFile(),
    summary:
      'PEM file with the certificate that is shown to `rediss://` nodes, and its chain; a change is in force for new connections within a second.',
    source: 'Redis demands one of its clients unless it says `tls-auth-clients no`.',
  }),
  redisKey: optional('FENCEPOST_REDIS_KEY_FILE', 'redis.keyFile', {
    kind: privateKeyFile(),
    summary: 'PEM file with the private key of that certificate.',
    source: 'Given with the certificate.',
  }),
  nodeDeadlineMs: setting('FENCEPOST_NODE_DEADLINE', 'redis.nodeDeadline', '80ms', {
    kind: duration({ minMs: 5 * MILLISECOND, maxMs: 10 * SECOND }),
    summary: 'How long one node may take for one command before it counts as not having answered.',
    source:
      'Below the claim budget of 100ms, so that a slow node can’t use it up; at most 5 % of the lease, as Redlock asks.',
  }),
  nodeMemoryClaims: setting('FENCEPOST_NODE_MEMORY_CLAIMS', 'redis.memoryClaims', '0.9', {
    kind: fraction(),
    summary:
      'Share of a node’s `maxmemory` that new claims may fill; the rest is for the outcomes of what was granted.',
    source:
      'A node is looked at once a second: a tenth of half a gigabyte is what a hundred requests a second with answers of 100 KB take in five.',
  }),
  redisConnectTimeoutMs: setting('FENCEPOST_REDIS_CONNECT_TIMEOUT', 'redis.connectTimeout', '90ms', {
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: 30 * SECOND }),
    summary: 'How long connecting to one node may take.',
    source: 'Below 100ms within one region; raise it where nodes are further away or TLS is slow.',
  }),

  // Listeners and the application
  proxyListen: setting('FENCEPOST_PROXY_LISTEN', 'listen.proxy', '0.0.0.0:8080', {
    kind: listenAddress(),
    summary: 'Where the proxy listens.',
    source: 'Clients come from outside the pod.',
  }),
  apiListen: setting('FENCEPOST_API_LISTEN', 'listen.api', '127.0.0.1:8081', {
    kind: listenAddress(),
    summary: 'Where the reservation API listens.',
    source: 'For the application in the same pod only.',
  }),
  gatewayListen: setting('FENCEPOST_GATEWAY_LISTEN', 'listen.gateway', 'off', {
    kind: listenAddress(),
    summary: 'Where gateways ask whether a request may go on (Envoy, nginx, HAProxy, Caddy, Kong, Traefik).',
    source: 'Few have a gateway that asks; the proxy needs none.',
  }),
  gatewayGrpcListen: setting('FENCEPOST_GATEWAY_GRPC_LISTEN', 'listen.gatewayGrpc', 'off', {
    kind: listenAddress(),
    summary: 'Where Envoy asks over gRPC (ext_authz, ext_proc); of TLS it is the gateway listener.',
    source: 'gRPC needs HTTP/2, which no other listener speaks.',
  }),
  adminListen: setting('FENCEPOST_ADMIN_LISTEN', 'listen.admin', '0.0.0.0:9090', {
    kind: listenAddress(),
    summary: 'Where probes and metrics are served.',
    source: 'The kubelet and Prometheus come from outside the pod.',
  }),
  operatorListen: setting('FENCEPOST_OPERATOR_LISTEN', 'listen.operator', 'off', {
    kind: listenAddress(),
    summary:
      'Where operators find single records and decide about them (docs/operations/one-key.md); on this machine alone, or with TLS.',
    source: 'A decision can make a request run again: it is opened where somebody is to decide.',
  }),
  upstream: optional('FENCEPOST_UPSTREAM', 'upstream.address', {
    kind: upstreamAddress(),
    summary:
      'The application behind the proxy, and no address of fencepost itself; required unless the proxy is off.',
    source: 'The target is fixed here and never taken from a request.',
  }),
  upstreamHost: setting('FENCEPOST_UPSTREAM_HOST', 'upstream.host', 'client', {
    kind: choice('client', 'application'),
    summary: "What the application reads in Host: the client's host, or its own address.",
    source: 'Applications compare it with Origin, and build links and redirects of it.',
  }),
  upstreamConnectTimeoutMs: setting('FENCEPOST_UPSTREAM_CONNECT_TIMEOUT', 'upstream.connectTimeout', '1s', {
    kind: duration({ minMs: MILLISECOND, maxMs: MINUTE }),
    summary:
      'How long connecting to the application may take; beyond it nothing was sent and a retry is safe.',
    source: 'The application is in the same pod: a second means that it is not listening.',
  }),
  upstreamTimeoutMs: setting('FENCEPOST_UPSTREAM_TIMEOUT', 'upstream.timeout', '60s', {
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: HOUR }),
    summary:
      'How long the application may take: for its whole answer to a protected request, for the head of any other; a route may say otherwise.',
    source: 'The default of nginx (`proxy_read_timeout`).',
  }),
  upstreamBodyTimeoutMs: setting('FENCEPOST_UPSTREAM_BODY_TIMEOUT', 'upstream.bodyTimeout', '60s', {
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: HOUR }),
    summary: 'Longest silence of the application between two parts of the body of its answer.',
    source: 'The same as for the head.',
  }),
  upstreamConnections: setting('FENCEPOST_UPSTREAM_CONNECTIONS', 'upstream.connections', '256', {
    kind: integer({ min: 1, max: 10_000 }),
    summary:
      'Largest number of connections to the application; requests that no route protects take at most three quarters of them.',
    source: 'A quarter of the limit of requests in flight: most of them wait for nodes or for others.',
  }),
  upstreamKeepAliveMs: setting('FENCEPOST_UPSTREAM_KEEP_ALIVE', 'upstream.keepAlive', '4s', {
    kind: duration({ minMs: MILLISECOND, maxMs: HOUR }),
    summary:
      'How long an idle connection to the application is kept; for less, where the application says less.',
    source: 'Below the 5s after which a Node server closes idle connections, so that it is we who close.',
  }),

  // Namespace
  env: setting('FENCEPOST_ENV', 'scope.env', 'default', {
    kind: label(),
    summary: 'Environment part of the namespace of every record.',
    source: 'One set of nodes may serve several environments.',
  }),
  apiVersion: setting('FENCEPOST_API_VERSION', 'scope.apiVersion', 'v1', {
    kind: label(),
    summary: 'API version where the request carries none.',
    source: 'Two versions of an API may give one key two meanings.',
  }),
  tenant: setting('FENCEPOST_TENANT', 'scope.tenant', 'default', {
    kind: label(),
    summary: 'Tenant where the request carries none.',
    source: 'For applications with a single tenant.',
  }),
  tenantHeader: setting('FENCEPOST_TENANT_HEADER', 'scope.tenantHeader', 'x-tenant-id', {
    kind: headerName(),
    summary: 'Header that carries the tenant.',
    source: 'Common usage.',
  }),
  versionHeader: setting('FENCEPOST_VERSION_HEADER', 'scope.versionHeader', 'x-api-version', {
    kind: headerName(),
    summary: 'Header that carries the API version.',
    source: 'Common usage.',
  }),
  clientHeader: setting('FENCEPOST_CLIENT_HEADER', 'scope.clientHeader', 'x-client-id', {
    kind: headerName(),
    summary:
      'Header that names the client of a request without Authorization, which would be anonymous otherwise (of a trusted peer, where `trust.scopeHeaders` is on).',
    source: 'Common usage.',
  }),

  // Records
  leaseMs: setting('FENCEPOST_LEASE', 'record.lease', '30s', {
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: HOUR }),
    summary: 'Processing lease, renewed while the application works: how soon a dead holder is replaced.',
    source:
      'Long enough for two failed renewals and a pause of the process, short enough for a client’s retry.',
  }),
  retentionMs: setting('FENCEPOST_RETENTION', 'record.retention', '24h', {
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: 366 * DAY }),
    summary: 'How long a completed record answers duplicates.',
    source: 'What Stripe documents for its idempotency keys.',
  }),
  claimBudgetMs: setting('FENCEPOST_CLAIM_BUDGET', 'record.claimBudget', '100ms', {
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: 30 * SECOND }),
    summary: 'Time for all rounds of one claim together, retries included.',
    source: 'What a request may wait for its lock before 503 is the better answer.',
  }),
  settleBudgetMs: setting('FENCEPOST_SETTLE_BUDGET', 'record.settleBudget', '2s', {
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: MINUTE }),
    summary:
      'How long a client waits for its outcome to be recorded before it gets its answer marked `unstored`.',
    source: 'Longer than a leader change of a network path, shorter than what a client takes for a failure.',
  }),
  renewFraction: setting('FENCEPOST_RENEW_FRACTION', 'record.renewFraction', '1/3', {
    kind: fraction(),
    summary: 'Share of its validity after which a lease is renewed, or up to a tenth of that earlier.',
    source: 'A third: two renewals in a row may fail. Less is more rounds, and more that may fail.',
  }),
  totalHoldMs: setting('FENCEPOST_TOTAL_HOLD', 'record.totalHold', '5m', {
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: DAY }),
    summary: 'How long one request may hold its record, renewals included.',
    source: 'Above the upstream timeout; it bounds what an application that never answers can keep.',
  }),
  clientRetryWindowMs: setting('FENCEPOST_CLIENT_RETRY_WINDOW', 'record.clientRetryWindow', '2m', {
    kind: duration({ minMs: 0, maxMs: 366 * DAY }),
    summary: 'How long clients retry; retentions must cover it.',
    source: 'Above the total of the default retries of the usual HTTP clients and SDKs.',
  }),
  longestRedeliveryMs: setting('FENCEPOST_LONGEST_REDELIVERY', 'record.longestRedelivery', '0s', {
    kind: duration({ minMs: 0, maxMs: 366 * DAY }),
    summary: 'After which time a message broker in front may still deliver again; retentions must cover it.',
    source: 'No broker is assumed.',
  }),
  mode: setting('FENCEPOST_MODE', 'mode', 'enforce', {
    kind: choice('enforce', 'observe'),
    summary:
      'With `observe` no route protects: every request is executed, and what the routes would have done is counted (`fencepost observe report`).',
    source: 'A sidecar that protects nothing unless it is told to would be mistaken for one that does.',
  }),
  onQuorumLoss: setting('FENCEPOST_ON_QUORUM_LOSS', 'record.onQuorumLoss', 'fail-closed', {
    kind: choice('fail-closed', 'fail-open', 'local'),
    summary: 'What happens while fewer than a majority of the nodes answer.',
    source: 'Without a majority nobody knows whether a request was carried out.',
  }),
  quarantineMs: optional('FENCEPOST_QUARANTINE', 'record.quarantine', {
    kind: duration({ minMs: 0, maxMs: DAY }),
    summary: 'How long a node that lost its memory does not vote.',
    source: 'Where not set: longest lease · (1 + drift) + clock step, computed from this configuration.',
  }),
  reservationsPerSession: setting('FENCEPOST_RESERVATIONS_PER_SESSION', 'reservations.perSession', '1000', {
    kind: integer({ min: 1, max: 1_000_000 }),
    summary:
      'Largest number of reservations that one session holds through one sidecar; beyond it the answer is 429.',
    source: 'A session is one piece of work: far more than any takes, far less than what fills the memory.',
  }),
  sweepIntervalMs: setting('FENCEPOST_SWEEP_INTERVAL', 'coordination.sweepInterval', '60s', {
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: DAY }),
    summary: 'How often the elected sidecar looks for claims that expired without an outcome.',
    source: 'Twice the default lease: an orphan is seen within three leases.',
  }),
  nodeCollectionIntervalMs: setting(
    'FENCEPOST_NODE_COLLECTION_INTERVAL',
    'coordination.nodeCollectionInterval',
    '30s',
    {
      kind: duration({ minMs: 0, maxMs: HOUR }),
      summary:
        'How often the elected sidecar asks each node for memory, evictions, clients and slow log; 0s: never, and the alerts and panels about them have no data.',
      source:
        'What it shows changes within minutes. One sidecar of a cluster asks, three small commands a node.',
    },
  ),
  settlePath: optional('FENCEPOST_SETTLE_PATH', 'coordination.settlePath', {
    kind: patterned('a path that begins with a slash', /^\/[\x21-\x7e]{0,255}$/),
    summary:
      'Path of the application that is asked (POST) what became of a claim that expired without an outcome.',
    source: 'Without it such claims are only written down as dead letters.',
  }),
  reservationMaxLeaseMs: setting('FENCEPOST_RESERVATION_MAX_LEASE', 'reservations.maxLease', '60s', {
    kind: duration({ minMs: 100 * MILLISECOND, maxMs: HOUR }),
    summary: 'Longest lease that a caller of the reservation API may ask for.',
    source: 'It bounds the quarantine; longer work extends its lease.',
  }),

  // Clocks
  tokenAheadMs: setting('FENCEPOST_CLOCK_TOKEN_AHEAD', 'clock.tokenAhead', '10s', {
    kind: duration({ minMs: 0, maxMs: HOUR }),
    summary: 'How far ahead of a node’s clock a token may be before the node refuses it.',
    source: 'Far above the skew of any synchronised clock; one wild clock can’t poison a key for longer.',
  }),
  clockMaxSkewMs: setting('FENCEPOST_CLOCK_MAX_SKEW', 'clock.maxSkew', '50ms', {
    kind: duration({ minMs: MILLISECOND, maxMs: HOUR }),
    summary: 'Tolerated offset between a node’s clock and ours.',
    source: 'Well above what NTP keeps within a region, and above half a round trip.',
  }),
  clockStepMs: setting('FENCEPOST_CLOCK_STEP', 'clock.step', '1s', {
    kind: duration({ minMs: 0, maxMs: HOUR }),
    summary:
      'Step of a node’s clock that is tolerated: the quarantine allows for it, and a node whose clock leaps further ahead rejoins.',
    source:
      'chrony steps only above its `makestep` threshold, 1s in the configuration that distributions ship.',
  }),
  clockEnforce: setting('FENCEPOST_CLOCK_ENFORCE', 'clock.enforce', 'off', {
    kind: onOff(),
    summary:
      'Refuse claims, before any node is asked, while the offset of a majority is above the tolerated one, instead of reporting it.',
    source:
      'Off: tokens and outcomes need no clock, so a constant offset makes nothing wrong, and refusing would make a fault of NTP an outage.',
  }),

  // Limits
  maxInFlight: setting('FENCEPOST_MAX_IN_FLIGHT', 'limits.inFlight', '1024', {
    kind: integer({ min: 1, max: 1_000_000 }),
    summary:
      'Largest number of requests under way in this process, three quarters of it for those that no route protects; beyond it the answer is 503.',
    source:
      'With bodies of 64KiB on average it is 64MiB, a sixth of the 384MiB that the manifests give the container.',
  }),
  tenantInFlight: setting('FENCEPOST_TENANT_IN_FLIGHT', 'limits.tenantInFlight', '1024', {
    kind: integer({ min: 1, max: 1_000_000 }),
    summary: 'Largest number of protected requests of one tenant under way in this process; beyond it 429.',
    source:
      'The same as for all together, because many applications have a single tenant; lower it where tenants share.',
  }),
  tenantNewRecords: setting('FENCEPOST_TENANT_NEW_RECORDS', 'limits.tenantNewRecords', '10000', {
    kind: integer({ min: 1, max: 10_000_000 }),
    summary:
      'Largest number of new records that one tenant makes within a second through this process; beyond it 429.',
    source: 'Above what one sidecar can claim on five nodes; lower it where tenants share the nodes.',
  }),
  bodyLimitBytes: setting('FENCEPOST_BODY_LIMIT', 'limits.body', '1MiB', {
    kind: size({ minBytes: 0, maxBytes: 1024 * MIB }),
    summary: 'Largest request body that is buffered; beyond it the answer is 413.',
    source: 'The default of nginx (`client_max_body_size`) and Fastify (`bodyLimit`).',
  }),
  bodyMemoryBytes: optional('FENCEPOST_BODY_MEMORY', 'limits.bodyMemory', {
    kind: size({ minBytes: 64 * KIB, maxBytes: 1024 * 1024 * MIB }),
    summary:
      'Memory for the bodies of all requests and answers under way; requests may fill three quarters of it, beyond which the answer is 503.',
    source:
      'Otherwise a sixth of the memory limit of the container, 64MiB of 384MiB (docs/operations/capacity.md has the measurement), and 256MiB without a limit; at least enough for one body of the largest that a route accepts.',
  }),
  storedResponseLimitBytes: setting('FENCEPOST_STORED_RESPONSE_LIMIT', 'limits.storedResponse', '256KiB', {
    kind: size({ minBytes: 0, maxBytes: 64 * MIB }),
    summary: 'Largest response body that is stored; beyond it a tombstone is, and duplicates get 410.',
    source: 'Five copies for a whole retention: 4,000 of them are 1GiB on every node.',
  }),
  outcomeCacheBytes: setting('FENCEPOST_OUTCOME_CACHE', 'limits.outcomeCache', '16MiB', {
    kind: size({ minBytes: 0, maxBytes: 64 * 1024 * MIB }),
    summary:
      'Memory for recorded outcomes, so that their duplicates are answered without asking the nodes; 0 is none.',
    source: 'Some 10,000 answers of 1KiB: a retry mostly comes within seconds, through the same pod.',
  }),
  waitMaxMs: setting('FENCEPOST_WAIT_MAX', 'limits.wait', '10s', {
    kind: duration({ minMs: 0, maxMs: HOUR }),
    summary: 'How long a concurrent duplicate waits for the first, on routes that wait.',
    source: 'A third of the lease, below the usual timeout of clients.',
  }),
  maxWaiters: setting('FENCEPOST_MAX_WAITERS', 'limits.waiters', '256', {
    kind: integer({ min: 0, max: 1_000_000 }),
    summary: 'Largest number of waiting duplicates of one route; beyond it the answer is 429.',
    source: 'A quarter of the requests in flight, so that waiting can’t starve working.',
  }),
  headersTimeoutMs: setting('FENCEPOST_HEADERS_TIMEOUT', 'limits.headersTimeout', '10s', {
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: HOUR }),
    summary: 'How long a client may take to send the head of a request.',
    source: 'Slow senders hold connections; Node’s own limit is 60s.',
  }),
  requestTimeoutMs: setting('FENCEPOST_REQUEST_TIMEOUT', 'limits.requestTimeout', '60s', {
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: DAY }),
    summary:
      'How long a client may take to send a whole request; how long it may be silent in a body that is passed on as it arrives.',
    source: 'The default of nginx for a silent body (`client_body_timeout`).',
  }),
  keepAliveTimeoutMs: setting('FENCEPOST_KEEP_ALIVE_TIMEOUT', 'limits.keepAlive', '72s', {
    kind: duration({ minMs: MILLISECOND, maxMs: DAY }),
    summary: 'How long an idle connection of a client is kept.',
    source: 'Above the 60s of the usual load balancers, so that it is they who close.',
  }),
  headerLimitBytes: setting('FENCEPOST_HEADER_LIMIT', 'limits.headers', '16KiB', {
    kind: size({ minBytes: KIB, maxBytes: MIB }),
    summary: 'Largest head of a request; beyond it the answer is 431.',
    source: 'Node’s default (`--max-http-header-size`).',
  }),
  headerLinesMax: setting('FENCEPOST_HEADER_LINES', 'limits.headerLines', '200', {
    kind: integer({ min: 10, max: 1_000 }),
    summary: 'Largest number of header lines of a request; beyond it the answer is 431.',
    source: 'Node drops lines after the thousandth without a word, and with them the idempotency key.',
  }),
  connectionsMax: optional('FENCEPOST_CONNECTIONS', 'limits.connections', {
    kind: integer({ min: 1, max: 1_000_000 }),
    summary:
      'Largest number of connections of clients to one listener; beyond it new ones are closed at once.',
    source:
      'Otherwise as many as fit into a third of the memory limit of the container, at 32KiB each, or 96KiB with a certificate: 4096 or 1365 of 384MiB (docs/operations/capacity.md has the measurement); 20000 without a limit, and at most.',
  }),
  requestsPerConnection: setting(
    'FENCEPOST_REQUESTS_PER_CONNECTION',
    'limits.requestsPerConnection',
    '100000',
    {
      kind: integer({ min: 1, max: 1_000_000_000 }),
      summary: 'After how many requests a connection of a client is closed.',
      source: 'Often enough that load spreads over new pods, rarely enough to cost nothing.',
    },
  ),
  readerIdleMs: setting('FENCEPOST_READER_IDLE', 'limits.readerIdle', '30s', {
    kind: duration({ minMs: 10 * MILLISECOND, maxMs: HOUR }),
    summary: 'How long a client may read nothing of its answer before its connection is cut.',
    source: 'Slow readers hold memory; the default of HAProxy examples (`timeout client`).',
  }),
  drainTimeoutMs: setting('FENCEPOST_DRAIN_TIMEOUT', 'limits.drain', '25s', {
    kind: duration({ minMs: 0, maxMs: HOUR }),
    summary: 'How long SIGTERM waits for requests under way.',
    source: 'Below the 30s that Kubernetes grants by default (`terminationGracePeriodSeconds`).',
  }),

  // Trust
  apiToken: optional('FENCEPOST_API_TOKEN_FILE', 'trust.apiTokenFile', {
    kind: file(),
    summary:
      'File with the bearer token that callers of the reservation API must show; of several lines each is one, and a change is in force within a second. Required where the API listens on more than localhost.',
    source: 'Not needed while it listens on localhost only.',
  }),
  operatorTokens: optional('FENCEPOST_OPERATOR_TOKENS_FILE', 'trust.operatorTokensFile', {
    kind: operatorTokensFile(),
    summary:
      'File that says who may call the operator listener, `name role token` a line, role `view` or `operate`; a change is in force within a second. Required where that listener is on.',
    source: 'The audit log names the person or tool of each decision.',
  }),
  reservationSecret: optional('FENCEPOST_RESERVATION_SECRET_FILE', 'trust.reservationSecretFile', {
    kind: secretFile(),
    summary:
      'File with the secret that signs reservation ids, the same for all sidecars of a cluster; with several lines the first signs and the others still verify. A change is in force within a second.',
    source:
      'Where not set: the sidecars agree on one through the nodes, and whoever reads the nodes can read it.',
  }),
  keyRing: optional('FENCEPOST_KEY_RING_FILE', 'trust.keyRingFile', {
    kind: keyRingFile(),
    summary:
      'File with the keys that stored outcomes are encrypted with (AES-256-GCM), one a line, `name base64`: the first line writes, all of them read. The line `plain` stands for no encryption, as before there was a file. A change is in force within a second.',
    source: 'Without it outcomes are stored as they are.',
  }),
  trustScopeHeaders: setting('FENCEPOST_TRUST_SCOPE_HEADERS', 'trust.scopeHeaders', 'on', {
    kind: onOff(),
    summary: 'Take tenant, API version and client from the headers of the request.',
    source: 'A gateway sets them; switch it off where clients could.',
  }),
  trustedPeers: setting('FENCEPOST_TRUSTED_PEERS', 'trust.peers', 'any', {
    kind: peers(),
    summary:
      'Peers of the proxy whose headers of tenant, version, client and origin (X-Forwarded-*, Forwarded, X-Real-IP) are believed; from others they are dropped.',
    source: 'In a pod only the ingress reaches the proxy; name its addresses where others can.',
  }),
  forwardedHeaders: setting('FENCEPOST_FORWARDED_HEADERS', 'trust.forwardedHeaders', 'append', {
    kind: choice('append', 'replace', 'off'),
    summary: 'What is done with X-Forwarded-For, -Proto and -Host on the way to the application.',
    source: 'A sidecar stands behind an ingress that has set them.',
  }),
  pageOrigins: setting('FENCEPOST_PAGE_ORIGINS', 'trust.pageOrigins', 'none', {
    kind: pageOrigins(),
    summary:
      'Origins whose pages may read what the proxy answers in its own words (CORS); answers of the application allow whom the application says.',
    source: 'Pages of the same origin need none. Which others there are only the application knows.',
  }),

  // TLS
  requireTls: setting('FENCEPOST_REQUIRE_TLS', 'tls.require', 'off', {
    kind: onOff(),
    summary:
      'Refuse to start while a node, a listener or the application would speak in clear text beyond this machine.',
    source: 'Behind a mesh that encrypts, clear text is what a sidecar has to speak.',
  }),
  tlsListeners: setting('FENCEPOST_TLS_LISTENERS', 'tls.listeners', 'proxy', {
    kind: listeners(),
    summary: 'Which listeners speak TLS where a certificate is given; clients in plain text are cut.',
    source: 'The API is for the same pod, and probes of the kubelet have no certificate.',
  }),
  tlsCert: optional('FENCEPOST_TLS_CERT_FILE', 'tls.certFile', {
    kind: certificateFile(),
    summary: 'PEM file with the certificate and its chain; a change is in force within a second.',
    source: 'Not needed behind a gateway or a mesh that encrypts.',
  }),
  tlsKey: optional('FENCEPOST_TLS_KEY_FILE', 'tls.keyFile', {
    kind: privateKeyFile(),
    summary: 'PEM file with the private key of the certificate.',
    source: 'Given with the certificate.',
  }),
  tlsClientCa: optional('FENCEPOST_TLS_CLIENT_CA_FILE', 'tls.clientCaFile', {
    kind: certificateFile(),
    summary:
      'PEM file with the authorities that the certificates of clients are verified against; a client without one is cut.',
    source: 'Without it clients show no certificate.',
  }),

  // Operations
  instance: optional('FENCEPOST_INSTANCE', 'instance', {
    kind: label(),
    summary: 'Name of this sidecar in logs, traces and elections, such as the name of its pod.',
    source: 'Where not set: the host name, which in Kubernetes is the name of the pod.',
  }),
  runbookUrl: setting('FENCEPOST_RUNBOOK_URL', 'runbookUrl', 'https://fencepost.dev/runbooks', {
    kind: patterned('http://… or https://… without # and spaces', /^https?:\/\/[^\s#]+$/),
    summary:
      'Where you publish docs/operations/runbooks.md: the operator listener links to its sections, each by the name of its alert in lower case behind a #.',
    source:
      'The one that the shipped alerts link to; an address of your own works where yours is reached and that is not.',
  }),
  logLevel: setting('FENCEPOST_LOG_LEVEL', 'logs.level', 'info', {
    kind: choice('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    summary: 'Least severe log line that is written.',
    source: 'The levels of pino.',
  }),
  logRawKeys: setting('FENCEPOST_LOG_RAW_KEYS', 'logs.rawKeys', 'off', {
    kind: onOff(),
    summary: 'Log idempotency keys as they are instead of their hash.',
    source: 'A key may be a customer’s order number.',
  }),
  logDecisionsPerSecond: setting('FENCEPOST_LOG_DECISIONS', 'logs.decisionsPerSecond', '100', {
    kind: integer({ min: 0, max: 1_000_000 }),
    summary: 'Most lines a second about decisions that went well; what is left out is counted and said.',
    source: 'A line costs some 10 µs: a thousandth of a core.',
  }),
  tracing: setting('FENCEPOST_TRACING', 'tracing.enabled', 'off', {
    kind: onOff(),
    summary: 'Send traces; where to is told by the standard `OTEL_*` variables.',
    source: 'A collector is not assumed.',
  }),
  traceSampleRatio: setting('FENCEPOST_TRACE_SAMPLE_RATIO', 'tracing.sampleRatio', '0.1', {
    kind: fraction(),
    summary: 'Share of traces begun here that is recorded; a caller’s decision is followed.',
    source: 'Ten in a hundred show the shape of the latency at a tenth of the cost.',
  }),
  traceNodeSpans: setting('FENCEPOST_TRACE_NODE_SPANS', 'tracing.nodeSpans', 'off', {
    kind: onOff(),
    summary: 'One span for each node of each round.',
    source: 'Five times the spans.',
  }),
  traceBaggage: setting('FENCEPOST_TRACE_BAGGAGE', 'tracing.baggage', 'off', {
    kind: onOff(),
    summary:
      'Add lock id and key hash to the W3C baggage that goes to the application and back to callers of the API.',
    source: 'Baggage travels on to whomever the application calls.',
  }),
  quorumGate: setting('FENCEPOST_READINESS_QUORUM_GATE', 'readiness.quorumGate', 'auto', {
    kind: choice('auto', 'enforce', 'report'),
    summary:
      'Whether a lost quorum makes the pod unready, or is only reported. `auto`: it is only reported where a route goes on without one (`onQuorumLoss` other than `fail-closed`).',
    source: 'A Service sends nothing to an unready pod, also not what needs no quorum.',
  }),
  latencyGate: setting('FENCEPOST_READINESS_LATENCY_GATE', 'readiness.latencyGate', 'enforce', {
    kind: choice('enforce', 'report'),
    summary: 'Whether slow claims make the pod unready, or are only reported.',
    source: 'All pods share the nodes: choose `report` where unready pods are worse than slow ones.',
  }),
  unreadyAboveMs: setting('FENCEPOST_READINESS_UNREADY_ABOVE', 'readiness.unreadyAbove', '150ms', {
    kind: duration({ minMs: MILLISECOND, maxMs: MINUTE }),
    summary: 'The p95 of claims above which the pod becomes unready, three evaluations in a row.',
    source: 'One and a half claim budgets.',
  }),
  readyBelowMs: setting('FENCEPOST_READINESS_READY_BELOW', 'readiness.readyBelow', '120ms', {
    kind: duration({ minMs: MILLISECOND, maxMs: MINUTE }),
    summary: 'The p95 of claims below which it becomes ready again.',
    source: 'A fifth below the other threshold, so that it does not flap.',
  }),
  readinessWindowMs: setting('FENCEPOST_READINESS_WINDOW', 'readiness.window', '60s', {
    kind: duration({ minMs: SECOND, maxMs: HOUR }),
    summary: 'Over which time the p95 is taken.',
    source: 'Twelve evaluations of 5s.',
  }),
  readinessMinSamples: setting('FENCEPOST_READINESS_MIN_SAMPLES', 'readiness.minSamples', '20', {
    kind: integer({ min: 1, max: 1_000_000 }),
    summary: 'Fewest claims in the window for its p95 to mean anything.',
    source: 'The least number of which one is 5 %.',
  }),
  minUnreadyMs: setting('FENCEPOST_READINESS_MIN_UNREADY', 'readiness.minUnready', '15s', {
    kind: duration({ minMs: 0, maxMs: HOUR }),
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
