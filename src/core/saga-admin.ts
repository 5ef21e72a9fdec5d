/**
 * What an operator does with sagas, as a port: the sidecar offers it over HTTP where a database is configured.
 *
 * Owns the names of the answers. A saga that is not there, one that cannot be moved and a database that does not answer are
 * values, because what they mean over HTTP is decided there.
 */

export type SagaAdminResult =
  | { readonly kind: 'done'; readonly body: unknown }
  | { readonly kind: 'unknown' }
  /** It is there, and in a state in which this cannot be done. */
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unavailable' }

/** Sagas that are not at their end. */
export const OPEN_SAGA_STATES = ['running', 'compensating', 'parked'] as const
export const DEAD_LETTER_SOURCES = ['outbox', 'inbox'] as const

/** What waits among messages and sagas, as the database said at one moment. */
export type SagaBacklog = {
  /** Messages that could go now; those of parked aggregates are not among them. */
  readonly outboxPending: number
  readonly outboxParked: number
  /** Of the pending ones; 0 where there is none. */
  readonly oldestPendingAgeMs: number
  /** The same by partition; those with nothing to send are absent. */
  readonly partitionAgesMs: ReadonlyMap<number, number>
  /** Messages that consumers have begun and will be given again, and those that wait behind them. */
  readonly inboxOpen: number
  readonly openDeadLetters: Readonly<Record<(typeof DEAD_LETTER_SOURCES)[number], number>>
  readonly sagas: Readonly<Record<(typeof OPEN_SAGA_STATES)[number], number>>
  /** Rows of the outbox that are deleted and not yet cleaned up. */
  readonly outboxDeadRows: number
  /** While a transaction is open nothing can be cleaned up; of the whole database, 0 where none is open. */
  readonly oldestTransactionAgeMs: number
}

export interface SagaAdmin {
  show(sagaId: string): Promise<SagaAdminResult>
  retry(sagaId: string): Promise<SagaAdminResult>
  compensate(sagaId: string, reason: string): Promise<SagaAdminResult>
  deadLetters(limit: number): Promise<SagaAdminResult>
  replay(ids: readonly number[]): Promise<SagaAdminResult>
  lag(): Promise<SagaAdminResult>
}
