/**
 * The events of the kit, as one closed union. The kit logs and counts through subscribers alone (`event-log.ts` where there
 * is no other, `metrics.ts`, an application's logger). What a subscriber throws changes no outcome (`guarded`).
 */

/**
 * What came of a delivery. `refused` (a `BusinessError`) and `suspended` (a step whose compensation came first) end the
 * message like `processed`: none of them waits for a person. `passed` and `returned` (to its sender) had no mapping or no
 * handler.
 */
export type ConsumedOutcome =
  | 'processed'
  | 'duplicate'
  | 'retry'
  | 'defer'
  | 'refused'
  | 'suspended'
  | 'dead_letter'
  | 'passed'
  | 'returned'

export type SagaEvent =
  | { readonly kind: 'transaction_retried'; readonly sqlState: string; readonly attempt: number }
  | { readonly kind: 'pool_error'; readonly error: unknown }
  | { readonly kind: 'replayed'; readonly scope: string; readonly outcome: 'completed' | 'failed' }
  | { readonly kind: 'taken_over'; readonly scope: string; readonly key: string; readonly attempt: number }
  | { readonly kind: 'fenced_out'; readonly what: string }
  | { readonly kind: 'parked'; readonly what: string; readonly error: unknown }
  | {
      readonly kind: 'published'
      readonly destination: string
      readonly durationMs: number
      readonly ageMs: number
    }
  | { readonly kind: 'publish_failed'; readonly destination: string; readonly error: unknown }
  | { readonly kind: 'partitions_changed'; readonly relayId: string; readonly partitions: readonly number[] }
  | { readonly kind: 'relay_error'; readonly relayId: string; readonly error: unknown }
  | {
      readonly kind: 'consumed'
      readonly consumerId: string
      readonly type: string
      readonly outcome: ConsumedOutcome
      readonly durationMs: number
      /** From writing the message to committing its processing. */
      readonly criticalTimeMs?: number
      readonly error?: unknown
    }
  | {
      /** No mapping reads it, or no handler is for its type. */
      readonly kind: 'unhandled'
      readonly consumerId: string
      readonly reason: 'unmapped' | 'unhandled_type'
      /** Of its dead letter, where it has one. */
      readonly messageId: string
      readonly type: string
      readonly outcome: 'dead_letter' | 'passed' | 'returned'
      readonly error: unknown
    }
  | { readonly kind: 'consumer_error'; readonly consumerId: string; readonly error: unknown }
  | { readonly kind: 'lock_release_failed'; readonly resources: readonly string[]; readonly error: unknown }
  | { readonly kind: 'lock_renewal_failed'; readonly resources: readonly string[]; readonly error: unknown }
  | {
      readonly kind: 'saga_advanced'
      readonly sagaId: string
      readonly name: string
      readonly status: string
    }
  | {
      readonly kind: 'saga_step_failed'
      readonly sagaId: string
      readonly step: string
      readonly error: unknown
    }
  | { readonly kind: 'saga_error'; readonly error: unknown }
  | {
      /** A run of housekeeping has ended. `expired`: dead letters that no one had decided on in time. */
      readonly kind: 'housekept'
      readonly durationMs: number
      readonly deleted: number
      readonly expired: number
    }
  | { readonly kind: 'housekeeping_error'; readonly error: unknown }
  | { readonly kind: 'retained'; readonly table: string; readonly deleted: number }
  | { readonly kind: 'recovered'; readonly scope: string; readonly key: string }

export type SagaEvents = (event: SagaEvent) => void

/**
 * Events are told where outcomes are decided: an error there would make a failure of what has succeeded. So one that a
 * subscriber throws, or rejects with, goes to `report`.
 */
export function guarded(events: SagaEvents, report: (error: unknown) => void): SagaEvents {
  return (event) => {
    try {
      const told: unknown = events(event)
      if (told instanceof Promise) told.catch(report)
    } catch (error) {
      report(error)
    }
  }
}
