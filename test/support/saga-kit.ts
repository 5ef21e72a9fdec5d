/**
 * A kit on its own migrated schema, with the events that it emitted, for tests of the saga kit.
 */

import type { InboundMessage, OutboxEvent, SagaEvent } from '@fencepost/saga'
import { createSagaKit, migrate, type SagaKit, type SagaKitOptions } from '@fencepost/saga'
import type { PostgresServer } from './postgres-server.ts'

export type TestKit = SagaKit & {
  readonly seen: SagaEvent[]
  seenOf<K extends SagaEvent['kind']>(kind: K): Extract<SagaEvent, { kind: K }>[]
}

let schemas = 0

/** Each kit has its own schema, so that tests share only the server. */
export async function testKit(
  server: PostgresServer,
  options: Partial<SagaKitOptions> = {},
): Promise<TestKit> {
  schemas += 1
  const seen: SagaEvent[] = []
  const kit = createSagaKit({
    pool: options.pool ?? server.pool(),
    schema: `kit_${schemas}`,
    events: (event) => seen.push(event),
    ...options,
  })
  await migrate(kit)
  return Object.assign(kit, {
    seen,
    seenOf: <K extends SagaEvent['kind']>(kind: K) =>
      seen.filter((event): event is Extract<SagaEvent, { kind: K }> => event.kind === kind),
  })
}

/** One number, for `SELECT count(*)`. */
export async function countOf(kit: SagaKit, from: string, values: unknown[] = []): Promise<number> {
  const { rows } = await kit.pool.query(`SELECT count(*)::int AS n FROM ${kit.schema}.${from}`, values)
  return rows[0].n
}

/** An event of an order, without content. */
export function orderEvent(type: string, aggregateId: string, more: Partial<OutboxEvent> = {}): OutboxEvent {
  return { aggregateType: 'order', aggregateId, type, payload: {}, ...more }
}

/** A message about an order, as an inbox gets it. */
export function orderMessage(
  messageId: string,
  type: string,
  aggregateId: string,
  more: Partial<InboundMessage> = {},
): InboundMessage {
  const createdAt = new Date(0).toISOString()
  const base = { messageId, type, aggregateType: 'order', aggregateId, body: '{}', headers: {}, createdAt }
  return { ...base, redelivered: false, ...more }
}
