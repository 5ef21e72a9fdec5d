/**
 * What an operator does with sagas, as a port: the sidecar offers it over HTTP where a database is configured.
 *
 * Owns the names of the answers. A missing saga, one that cannot be moved and a silent database are values, because
 * HTTP decides what they mean there.
 */

export type SagaAdminResult =
  | { readonly kind: 'done'; readonly body: unknown }
  | { readonly kind: 'unknown' }
  /** It exists, in a state that does not allow this. */
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unavailable' }

/** Sagas that have not ended. */
export const OPEN_SAGA_STATES = ['running', 'compensating', 'parked'] as const
export const DEAD_LETTER_SOURCES = ['outbox', 'inbox'] as const

/** The backlog of messages and sagas, as the database reported it at one moment. */
export type SagaBacklog = {
  /** Messages that could be sent now; those of parked aggregates are not among them. */
  readonly outboxPending: number
  readonly outboxParked: number
  /** Of the pending ones; 0 where there is none. */
  readonly oldestPendingAgeMs: number
  /** The same by partition; those with nothing to send are absent. */
  readonly partitionAgesMs: ReadonlyMap<number, number>
  /** Messages that consumers have begun and will get again, and those that wait behind them. */
  readonly inboxOpen: number
  readonly openDeadLetters: Readonly<Record<(typeof DEAD_LETTER_SOURCES)[number], number>>
  readonly sagas: Readonly<Record<(typeof OPEN_SAGA_STATES)[number], number>>
  /** Rows of the outbox that are deleted and not yet cleaned up. */
  readonly outboxDeadRows: number
  /** An open transaction blocks all cleanup; of the whole database, 0 where none is open. */
  readonly oldestTransactionAgeMs: number
}

export const SAGA_STATES = [...OPEN_SAGA_STATES, 'completed', 'compensated'] as const

export type SagaQuery = {
  readonly statuses?: readonly (typeof SAGA_STATES)[number][]
  readonly limit: number
  /** The last id of the page before. */
  readonly after?: string
}

export interface SagaAdmin {
  list(query: SagaQuery): Promise<SagaAdminResult>
  show(sagaId: string): Promise<SagaAdminResult>
  retry(sagaId: string): Promise<SagaAdminResult>
  compensate(sagaId: string, reason: string): Promise<SagaAdminResult>
  deadLetters(limit: number): Promise<SagaAdminResult>
  replay(ids: readonly number[]): Promise<SagaAdminResult>
  discard(ids: readonly number[]): Promise<SagaAdminResult>
  lag(): Promise<SagaAdminResult>
}
