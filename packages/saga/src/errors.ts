/**
 * Every error that the saga kit throws on purpose, one class for one situation, each with a stable `code`.
 *
 * Owns the words. `inbox.ts` decides what a situation means for a message (retry, later, give up).
 */

/** On a class: the symbol that its instances bear in every copy of the kit. */
const mark = Symbol('mark')

export class SagaKitError extends Error {
  /**
   * A bundler, or a package with a kit of its own below it, makes two copies of these classes. What the application throws of one
   * copy has to mean the same to a consumer of the other: `instanceof` goes by the mark where a class has one (see the end).
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: the class that is asked for
    const asked = this as { [mark]?: symbol }
    const marked = Object.hasOwn(asked, mark) ? asked[mark] : undefined
    if (marked !== undefined && typeof value === 'object' && value !== null && marked in value) return true
    return Function.prototype[Symbol.hasInstance].call(asked, value)
  }

  readonly code: string
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.name = new.target.name
  }
}

/** The key was used before with another request. A retry cannot help. */
export class IdempotencyKeyReuseError extends SagaKitError {
  readonly scope: string
  readonly key: string
  constructor(scope: string, key: string) {
    super('idempotency_key_reuse', `the key ${key} in scope ${scope} belongs to another request`)
    this.scope = scope
    this.key = key
  }
}

/** Another process works on it now. Come back after `retryAfterMs`; this costs no attempt. */
export class OperationInProgressError extends SagaKitError {
  readonly retryAfterMs: number
  constructor(what: string, retryAfterMs: number) {
    super('operation_in_progress', `${what} is in progress; ask again in ${Math.ceil(retryAfterMs)} ms`)
    this.retryAfterMs = Math.max(0, retryAfterMs)
  }
}

/**
 * Other holders have the locks, or, with a `cause`, whoever knows gave no answer. Come back later; this costs no attempt.
 */
export class LockNotAcquiredError extends SagaKitError {
  readonly retryAfterMs: number
  constructor(resources: readonly string[], retryAfterMs: number, options?: ErrorOptions) {
    super('lock_not_acquired', `not all of [${resources.join(', ')}] could be locked`, options)
    this.retryAfterMs = Math.max(0, retryAfterMs)
  }
}

/** A newer holder has written already: this one's knowledge is old, and it may write nothing. */
export class FencedOutError extends SagaKitError {
  constructor(what: string, options?: ErrorOptions) {
    super('fenced_out', `${what} has been taken over by a newer holder`, options)
  }
}

/** Another process took the step over while its effect ran, and writes the outcome. */
export class StepOvertakenError extends FencedOutError {}

/** The lease of a lock or of a step ended before the work did. (`LeaseLostError` is the client's: a reservation's.) */
export class LeaseEndedError extends SagaKitError {
  constructor(what: string, options?: ErrorOptions) {
    super('lease_lost', `the lease of ${what} ended before the work`, options)
  }
}

/** Thrown by application code: a retry cannot help (a message that cannot be parsed, an unknown customer). */
export class NonRetryableError extends SagaKitError {
  constructor(message: string, options?: ErrorOptions) {
    super('non_retryable', message, options)
  }
}

/** By it a replay knows a message that killed its processes. */
export const neverEndedCode = 'never_ended'

/** The message was begun this often and never came to an end: its process died each time, at last with nothing beside it. */
export class NeverEndedError extends NonRetryableError {
  override readonly code = neverEndedCode
  constructor(deliveries: number) {
    super(
      `${deliveries} deliveries came to no end, the last of them with no other message in progress: its process died each time`,
    )
  }
}

/** The schema of its type refuses the payload. A retry cannot help. */
export class InvalidPayloadError extends NonRetryableError {
  override readonly code = 'invalid_payload'
  constructor(type: string, issues: readonly string[]) {
    super(`the payload of the ${type} does not match its schema: ${issues.join('; ')}`)
  }
}

/** No `inbound` mapping reads the message. Its dead letter can be replayed once one does. */
export class UnmappedMessageError extends SagaKitError {
  constructor(message: string, options?: ErrorOptions) {
    super('unmapped', message, options)
  }
}

/** The consumer has no handler for the type. Its dead letter can be replayed once it has one. */
export class UnhandledTypeError extends SagaKitError {
  constructor(consumerId: string, type: string) {
    super(
      'unhandled_type',
      `the consumer ${consumerId} has no handler for the type ${JSON.stringify(type)}; add one, or set onUnhandled`,
    )
  }
}

/**
 * Thrown by an effect on a definite refusal by the business (card declined, out of stock). It is an outcome and not a
 * fault: `reject` commits it, and repetitions get it again.
 */
export class BusinessError extends SagaKitError {
  readonly details: unknown
  constructor(code: string, message: string, details: unknown = null, options?: ErrorOptions) {
    super(code, message, options)
    this.details = details
  }
}

/** `commit` or `reject` of a step threw a BusinessError: the effect has ended, and nothing says so. A fault, and no outcome of its message. */
export class LateRefusalError extends SagaKitError {
  constructor(what: string, cause: BusinessError) {
    super(
      'late_refusal',
      `${what} was refused after its effect, which is a fault and no outcome; refuse in the effect: ${cause.message}`,
      { cause },
    )
  }
}

/** The step has used all its attempts and waits for a person (status `parked`). Its `cause` is why the last one failed. */
export class AttemptsExhaustedError extends SagaKitError {
  readonly attempts: number
  constructor(what: string, attempts: number, options?: ErrorOptions) {
    const { cause } = options ?? {}
    const why = cause instanceof Error ? cause.message : cause
    super(
      'attempts_exhausted',
      `${what} is parked after ${attempts} attempts${typeof why === 'string' ? `: ${why}` : ''}`,
      options,
    )
    this.attempts = attempts
  }
}

/** The compensation of this step came first; the step must never be executed. */
export class StepSuspendedError extends SagaKitError {
  constructor(sagaId: string, step: string, status: string) {
    super('step_suspended', `step ${step} of saga ${sagaId} may not run: it is ${status}`)
  }
}

/** The saga's pivot was executed, or may have been: the saga can only go forward. */
export class StepIrreversibleError extends SagaKitError {
  constructor(sagaId: string, step: string, status: string) {
    super('step_irreversible', `step ${step} of saga ${sagaId} cannot be undone: it is ${status}`)
  }
}

/** The connection broke, or no reply came in time, during COMMIT: only the record tells whether it happened. */
export class CommitOutcomeUnknownError extends SagaKitError {
  constructor(options?: ErrorOptions) {
    super('commit_outcome_unknown', 'COMMIT was not answered: its outcome is unknown', options)
  }
}

/** A statement failed and its error was swallowed, so that PostgreSQL answers COMMIT with ROLLBACK. */
export class TransactionAbortedError extends SagaKitError {
  constructor(options?: ErrorOptions) {
    super(
      'transaction_aborted',
      'nothing was committed, because an earlier statement had failed unnoticed; where an error may be caught, put its statement under a savepoint',
      options,
    )
  }
}

/** The publisher cannot reach its broker. Says nothing about a message, so it costs no attempt. */
export class BrokerUnavailableError extends SagaKitError {
  constructor(message: string, options?: ErrorOptions) {
    super('broker_unavailable', message, options)
  }
}

/** The broker answers, and refuses the user. It says nothing about a message, so it costs no attempt. */
export class BrokerAccessRefusedError extends BrokerUnavailableError {
  override readonly code = 'broker_access_refused'
}

/** The broker answers, and refuses the queue or the binding as it is declared here. */
export class BrokerDeclarationRefusedError extends BrokerUnavailableError {
  override readonly code = 'broker_declaration_refused'
}

/** RabbitMQ answers, and has no such virtual host, or not for this user. */
export class BrokerVirtualHostError extends BrokerUnavailableError {
  override readonly code = 'broker_vhost_refused'
}

/** The broker refused this message (no route, too large): this costs an attempt. */
export class PublishRefusedError extends SagaKitError {
  constructor(message: string, options?: ErrorOptions) {
    super('publish_refused', message, options)
  }
}

/**
 * The receiver requests a pause, or has no room for a message now (a full queue): it is sent again later, and this costs no
 * attempt.
 */
export class PublishDeferredError extends SagaKitError {
  readonly retryAfterMs: number
  constructor(message: string, retryAfterMs: number, options?: ErrorOptions) {
    super('publish_deferred', message, options)
    this.retryAfterMs = Math.max(0, retryAfterMs)
  }
}

/** Called inside a transaction that it cannot join: it commits by itself. A retry cannot help. */
export class NestedTransactionError extends NonRetryableError {
  override readonly code = 'nested_transaction'
  constructor(call: string, instead: string) {
    super(`${call} was called inside an open transaction and cannot join it; ${instead}`)
  }
}

/** A call that belongs into a transaction was given something else, such as a pool. A retry cannot help. */
export class NotInTransactionError extends NonRetryableError {
  override readonly code = 'not_in_transaction'
  constructor(call: string, options?: ErrorOptions) {
    super(
      `${call} needs the transaction that makes it true, and was given a connection or a pool without one; call it in kit.transaction, in withIdempotency, or after BEGIN`,
      options,
    )
  }
}

/** A call came after the end of its transaction: a promise that was not awaited. */
export class TransactionEndedError extends NonRetryableError {
  override readonly code = 'transaction_ended'
  constructor() {
    super('the transaction had ended before this call joined it; await every call inside it')
  }
}

/** No connection of the pool became free in time. Says nothing about the work, so it costs a message no attempt. */
export class NoConnectionError extends SagaKitError {
  constructor(waitedMs: number, { max, waiting }: { readonly max: number; readonly waiting: number }) {
    super(
      'no_connection',
      `no connection became free within ${waitedMs} ms (connectionWaitMs): the pool has max ${max}, and ${waiting} callers wait. Give the pool one connection for each message or saga in progress (concurrency), and let code inside a transaction use its tx`,
    )
  }
}

/** The kit's tables are not there, or are those of an earlier version. */
export class SchemaMissingError extends SagaKitError {
  constructor(schema: string, options?: ErrorOptions) {
    super(
      'schema_missing',
      `the schema ${schema} lacks tables or columns of this version of the kit; run migrate(kit), or fencepost-saga migrate, before relays and consumers begin`,
      options,
    )
  }
}

/** Others hold the kit's tables for so long that they could not be migrated without stopping every service. Nothing was changed. */
export class TablesBusyError extends SagaKitError {
  constructor(schema: string, options?: ErrorOptions) {
    super(
      'tables_busy',
      `the tables of the schema ${schema} were in use by a long transaction each time that they were to be migrated, and services would have waited behind it; nothing was changed. End that transaction (pg_stat_activity has it by its xact_start), or migrate when it is over`,
      options,
    )
  }
}

/** PostgreSQL answers, and refuses this user or database. */
export class DatabaseRefusedError extends SagaKitError {
  constructor(message: string, advice: string, options?: ErrorOptions) {
    super('database_refused', `PostgreSQL refused: ${message}; ${advice}`, options)
  }
}

/** An invalid option of the kit. */
export class SagaConfigError extends SagaKitError {
  constructor(message: string, options?: ErrorOptions) {
    super('invalid_configuration', message, options)
  }
}

/** What handlers and effects throw, or let through, and the kit decides by. Named here, because bundlers rename classes. */
const decisive = {
  AttemptsExhaustedError,
  BusinessError,
  IdempotencyKeyReuseError,
  LockNotAcquiredError,
  NonRetryableError,
  OperationInProgressError,
  StepSuspendedError,
}
for (const [name, of] of Object.entries(decisive)) {
  const symbol = Symbol.for(`fencepost.saga.${name}`)
  Object.defineProperty(of, mark, { value: symbol })
  Object.defineProperty(of.prototype, symbol, { value: true })
}
