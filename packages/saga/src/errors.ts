/**
 * Everything that the saga kit throws on purpose, one class for one situation, each with a stable `code`.
 *
 * Owns the words; what a situation means for a message (try again, come back later, give up) is decided in
 * `consumer.ts`, and its HTTP status where HTTP is spoken.
 */

export class SagaKitError extends Error {
  readonly code: string
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.name = new.target.name
  }
}

/** The key was used before with another request. Trying again cannot help. */
export class IdempotencyKeyReuseError extends SagaKitError {
  constructor(scope: string, key: string) {
    super('idempotency_key_reuse', `the key ${key} in scope ${scope} belongs to another request`)
  }
}

/** Another process works on it now. Come back after `retryAfterMs`; this is no failed attempt. */
export class OperationInProgressError extends SagaKitError {
  readonly retryAfterMs: number
  constructor(what: string, retryAfterMs: number) {
    super('operation_in_progress', `${what} is in progress; ask again in ${Math.ceil(retryAfterMs)} ms`)
    this.retryAfterMs = Math.max(0, retryAfterMs)
  }
}

/** The locks are held by others. Come back later; this is no failed attempt. */
export class LockNotAcquiredError extends SagaKitError {
  readonly retryAfterMs: number
  constructor(resources: readonly string[], retryAfterMs: number, options?: ErrorOptions) {
    super('lock_not_acquired', `not all of [${resources.join(', ')}] could be locked`, options)
    this.retryAfterMs = Math.max(0, retryAfterMs)
  }
}

/** A newer holder has written already: what this one knows is old, and nothing of it may be written. */
export class FencedOutError extends SagaKitError {
  constructor(what: string, options?: ErrorOptions) {
    super('fenced_out', `${what} has been taken over by a newer holder`, options)
  }
}

/** The step itself was taken over while its effect ran: its outcome is another's to write. */
export class StepOvertakenError extends FencedOutError {}

/** The lock ended before the work did. */
export class LeaseLostError extends SagaKitError {
  constructor(what: string, options?: ErrorOptions) {
    super('lease_lost', `the lease of ${what} ended before the work`, options)
  }
}

/** Thrown by application code: trying again cannot help (a message that cannot be parsed, an unknown customer). */
export class NonRetryableError extends SagaKitError {
  constructor(message: string, options?: ErrorOptions) {
    super('non_retryable', message, options)
  }
}

/**
 * Thrown by an effect where the answer is a definite no of the business (card declined, out of stock). It is an outcome
 * and not a fault: it is committed by `reject`, and replayed to whoever asks again.
 */
export class BusinessError extends SagaKitError {
  readonly details: unknown
  constructor(code: string, message: string, details: unknown = null, options?: ErrorOptions) {
    super(code, message, options)
    this.details = details
  }
}

/** The step has been tried as often as allowed and waits for a person (status `parked`). */
export class AttemptsExhaustedError extends SagaKitError {
  readonly attempts: number
  constructor(what: string, attempts: number, options?: ErrorOptions) {
    super('attempts_exhausted', `${what} is parked after ${attempts} attempts`, options)
    this.attempts = attempts
  }
}

/** The compensation of this step came first; the step must not be executed any more. */
export class StepSuspendedError extends SagaKitError {
  constructor(sagaId: string, step: string, status: string) {
    super('step_suspended', `step ${step} of saga ${sagaId} may not run: it is ${status}`)
  }
}

/** The saga's pivot has been executed, or may have been: there is only a way forward. */
export class StepIrreversibleError extends SagaKitError {
  constructor(sagaId: string, step: string, status: string) {
    super('step_irreversible', `step ${step} of saga ${sagaId} cannot be undone: it is ${status}`)
  }
}

/** The connection broke, or an answer did not come in time, while COMMIT was under way: the transaction happened or it did not. Ask the record. */
export class CommitOutcomeUnknownError extends SagaKitError {
  constructor(options?: ErrorOptions) {
    super('commit_outcome_unknown', 'COMMIT was not answered: its outcome is unknown', options)
  }
}

/** A statement failed, the error was swallowed, and COMMIT was answered with ROLLBACK. */
export class TransactionAbortedError extends SagaKitError {
  constructor() {
    super(
      'transaction_aborted',
      'COMMIT was answered with ROLLBACK: an earlier statement had failed unnoticed',
    )
  }
}

/** The publisher cannot reach its broker. Says nothing about any message, so no attempt is spent. */
export class BrokerUnavailableError extends SagaKitError {
  constructor(message: string, options?: ErrorOptions) {
    super('broker_unavailable', message, options)
  }
}

/** The broker refused this message (no route, too large, nacked): an attempt is spent. */
export class PublishRefusedError extends SagaKitError {
  constructor(message: string, options?: ErrorOptions) {
    super('publish_refused', message, options)
  }
}

/** The receiver asks to be left alone for a while: the message comes again, and no attempt is spent. */
export class PublishDeferredError extends SagaKitError {
  readonly retryAfterMs: number
  constructor(message: string, retryAfterMs: number) {
    super('publish_deferred', message)
    this.retryAfterMs = Math.max(0, retryAfterMs)
  }
}

/** What the kit was told cannot work. */
export class SagaConfigError extends SagaKitError {
  constructor(message: string) {
    super('invalid_configuration', message)
  }
}
