/** The operator API on five embedded nodes, as a real server, with a record in each state to look at. */
import { randomUUID } from 'node:crypto'
import { loadConfig } from '../../src/config/load.ts'
import { createLeases } from '../../src/core/claims/leases.ts'
import type { Clock } from '../../src/core/clock.ts'
import type { Verdict } from '../../src/core/coordination/settle-orphan.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import { createTraffic } from '../../src/core/health/traffic.ts'
import type { OperatorToken } from '../../src/core/operator/operator-tokens.ts'
import { createRecentDecisions } from '../../src/core/operator/recent-decisions.ts'
import { recordView } from '../../src/core/operator/record-view.ts'
import { lockDecision } from '../../src/core/operator/take-over.ts'
import type { Lease } from '../../src/core/ports.ts'
import { agreedSecret } from '../../src/core/reservations/reservation-secret.ts'
import { createEmbeddedNodes } from '../../src/embedded/node.ts'
import type { NodeSlowLog, OverviewFacts } from '../../src/http/operator/overview.ts'
import type { PageFiles } from '../../src/http/operator/page.ts'
import { createOperatorApi } from '../../src/http/operator/server.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { memoryAuditLog } from './memory-audit-log.ts'
import { OPERATE_TOKEN, operatorCaller, VIEW_TOKEN } from './operator-caller.ts'
import { fingerprintOf, keyOf, outcomeOf } from './redis-cluster.ts'

const loaded = loadConfig(
  { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:9' },
  () => '',
)
if (loaded.kind !== 'ok') throw new Error('the default configuration is invalid')
const { routes } = loaded.config

export type OperatorApiGiven = {
  readonly ask?: () => Promise<Verdict>
  readonly bodyBytesMax?: number
  readonly overview?: Partial<OverviewFacts>
  readonly slowLogs?: readonly NodeSlowLog[]
  readonly page?: PageFiles
  /** Of the listener; default: the system's. */
  readonly clock?: Clock
}

export async function startOperatorApi({
  ask,
  bodyBytesMax = 64 * 1024,
  overview = {},
  slowLogs = [],
  page,
  clock = systemClock,
}: OperatorApiGiven = {}) {
  const random = systemRandom
  const published: CoreEvent[] = []
  const events = { publish: (event: CoreEvent) => void published.push(event) }
  const nodes = createEmbeddedNodes(5, clock, 10_000, events)
  const leases = createLeases({
    quorum: createRedlockQuorum({ nodes, clock, events }),
    clock,
    random,
    events,
  })
  const auditLog = memoryAuditLog()
  const scope = { tenant: 'shop', env: 'test', apiVersion: 'v1' }
  const recent = createRecentDecisions(scope, () => clock.wallMs())
  const inspect = async (key: string) =>
    recordView(
      key,
      await Promise.all(
        nodes.map(async (node) => ({ node: node.name, answer: await node.execute({ kind: 'read', key }) })),
      ),
    )
  const operators: OperatorToken[] = [
    { name: 'ann', role: 'view', token: VIEW_TOKEN },
    { name: 'bob', role: 'operate', token: OPERATE_TOKEN },
  ]
  const traffic = createTraffic(clock)
  const overviewFacts: OverviewFacts = {
    ready: true,
    reasons: [],
    failing: new Map(),
    nodes: nodes.map(({ name }) => ({ name, address: name, state: 'voting' })),
    required: 3,
    inFlight: 0,
    sweeperElected: undefined,
    orphansOpen: undefined,
    nearMisses: [],
    traffic: traffic.view(),
    ...overview,
  }
  const api = createOperatorApi(
    {
      scope,
      describing: { routes, principal: { clientHeader: 'x-client-id', trusted: false } },
      secret: agreedSecret({ leases, clock, random }),
      instance: 'sidecar-1',
      runbookUrl: 'https://fencepost.dev/runbooks',
      storedBytesMax: 1_024,
      page,
      tokens: () => operators,
      limits: {
        bodyBytesMax,
        headerBytesMax: 16_384,
        headersTimeoutMs: 5_000,
        requestTimeoutMs: 10_000,
        keepAliveTimeoutMs: 5_000,
        connectionsMax: 100,
      },
    },
    {
      leases,
      auditLog,
      clock,
      events,
      recent,
      terms: { leaseMs: 30_000, retentionMs: 60_000 },
      ask,
      inspect,
      overview: () => overviewFacts,
      slowLogs: async () => slowLogs,
      forgetHere: () => {},
      isHeldHere: () => false,
      sidecarOf: async () => undefined,
      search: async () => ({ records: [] }),
      list: async () => ({ records: [] }),
      newInstance: randomUUID,
      onFailure: (error) => {
        throw error
      },
    },
  )
  const origin = await api.listen({ kind: 'tcp', host: '127.0.0.1', port: 0 })
  const claim = async (name: string, leaseMs = 30_000): Promise<Lease> => {
    const of = { key: keyOf(name), fingerprint: fingerprintOf(name), leaseMs, retentionMs: 60_000 }
    const claimed = await leases.claim({ ...of, budgetMs: 1_000 })
    if (claimed.kind !== 'granted') throw new Error(`${name} was not granted: ${claimed.kind}`)
    return claimed.lease
  }
  return {
    origin,
    /** Who may call, from now on. */
    operators,
    nodes,
    leases,
    auditLog,
    recent,
    events: published,
    api,
    operator: operatorCaller(origin),
    viewer: operatorCaller(origin, VIEW_TOKEN),
    claim,
    /** A claim that its holder took over from an expired one, and gave back: its first attempt is of unknown fate. */
    expire: async (name: string): Promise<string> => {
      const lease = await claim(name)
      await leases.release((await raisedAttempt(lease)).lease)
      return lease.key
    },
    complete: async (name: string): Promise<string> => {
      const lease = await claim(name)
      await leases.complete(lease, outcomeOf(name))
      return lease.key
    },
    /** Another operator decides on it. */
    lockDecision: async (name: string) =>
      lockDecision(await inspect(keyOf(name)), { leaseMs: 15_000 }, leases),
    [Symbol.asyncDispose]: () => api.close(0),
  }

  async function raisedAttempt(lease: Lease) {
    const renewed = await leases.renew({ ...lease, attempt: 2 })
    if (renewed.kind !== 'renewed') throw new Error(`not renewed: ${renewed.kind}`)
    return renewed
  }
}
