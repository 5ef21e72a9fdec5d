/** The real gateway listener on five embedded nodes, and the records that its checks leave there. */
import { randomUUID } from 'node:crypto'
import { createLeases } from '../../src/core/claims/leases.ts'
import type { Clock } from '../../src/core/clock.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import type { Leases } from '../../src/core/ports.ts'
import { createTenantQuotas, type TenantLimits } from '../../src/core/request/tenant-quotas.ts'
import { agreedSecret } from '../../src/core/reservations/reservation-secret.ts'
import { UNTRACED } from '../../src/core/tracing.ts'
import { createEmbeddedNodes, type StoppableNode } from '../../src/embedded/node.ts'
import { createGateway, type GatewayOptions } from '../../src/http/gateway/server.ts'
import { trackOutstanding } from '../../src/http/request/outstanding.ts'
import { createBodyMemory } from '../../src/http/server/body-memory.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { route, TEST_LIMITS, TEST_SCOPE } from './proxy.ts'

export type GatewayListenerOptions = {
  readonly options?: Partial<Omit<GatewayOptions, 'limits'>>
  readonly limits?: Partial<GatewayOptions['limits']>
  readonly tenants?: Partial<TenantLimits>
  /** Default: over embedded nodes. */
  readonly leases?: Leases
  /** Counts the new records of a tenant; default: the system clock. */
  readonly quotaClock?: Clock
  /** Default: beyond the reach of a test that is not about it. */
  readonly bodyMemoryBytes?: number
}

export type GatewayListener = AsyncDisposable & {
  readonly origin: string
  readonly port: number
  readonly nodes: readonly StoppableNode[]
  readonly failures: readonly unknown[]
  readonly events: readonly CoreEvent[]
  /** The records of requests claimed until now, in order. */
  claimed(): readonly string[]
  /** The present state of a record on a majority. */
  state(recordKey: string): Promise<string>
  close(graceMs: number): Promise<void>
}

export async function startGatewayListener(given: GatewayListenerOptions = {}): Promise<GatewayListener> {
  const clock = systemClock
  const random = systemRandom
  const published: CoreEvent[] = []
  const failures: unknown[] = []
  const events = { publish: (event: CoreEvent) => void published.push(event) }
  const nodes = createEmbeddedNodes(5, clock, 10_000, events)
  const leases =
    given.leases ??
    createLeases({ quorum: createRedlockQuorum({ nodes, clock, events }), clock, random, events })
  const gateway = createGateway(
    {
      routes: [route({ bodyLimitBytes: 1_024 })],
      scope: TEST_SCOPE,
      tokens: undefined,
      reportBytesMax: 4_096,
      ...given.options,
      limits: { ...TEST_LIMITS, ...given.limits },
    },
    {
      bodyMemory: createBodyMemory(given.bodyMemoryBytes ?? 2 ** 20),
      leases,
      quotas: createTenantQuotas(
        { inFlightMax: 1_000, newRecordsPerSecondMax: 1_000_000, ...given.tenants },
        given.quotaClock ?? clock,
      ),
      secret: agreedSecret({ leases, clock, random }),
      outstanding: trackOutstanding(clock, 1_000),
      clock,
      random,
      events,
      tracing: UNTRACED,
      newInstance: randomUUID,
      onFailure: (error) => failures.push(error),
    },
  )
  const origin = await gateway.listen({ kind: 'tcp', host: '127.0.0.1', port: 0 })
  return {
    origin,
    port: Number(new URL(origin).port),
    nodes,
    failures,
    events: published,
    // The secret that signs ids has a record of its own.
    claimed: () =>
      published.flatMap((event) =>
        event.kind === 'claim_ended' && event.result === 'granted' && /^dedup:[^:%]/.test(event.recordKey)
          ? [event.recordKey]
          : [],
      ),
    state: async (recordKey) => {
      const answer = await leases.read(recordKey)
      return answer.kind
    },
    close: gateway.close,
    [Symbol.asyncDispose]: () => gateway.close(0),
  }
}
