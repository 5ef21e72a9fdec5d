/**
 * The entry point of the package: `import { createSagaKit } from '@fencepost/saga'`. No module of the package imports
 * it.
 *
 * Adapters for brokers have their own entry points, so that a service loads only the clients that it uses:
 * `@fencepost/saga/rabbitmq`, `…/nats`, `…/redis-streams`, `…/webhook`, `…/mailbox`, `…/kafka`. Programs that
 * administer the tables use `@fencepost/saga/admin`.
 */

export { type SagaBacklog, sagaBacklog } from './backlog.ts'
export { type Consumer, type ConsumerOptions, createConsumer } from './consumer.ts'
export type { Pool, Tx } from './database.ts'
export {
  type DeadLetter,
  type DeadLetterFilter,
  discardDeadLetters,
  listDeadLetters,
  replayDeadLetters,
} from './dead-letters.ts'
export * from './errors.ts'
export type { SagaEvent, SagaEvents } from './events.ts'
export { assertFence, fencedUpdate, RowNotFoundError } from './fences.ts'
export type { QuorumCheck } from './first-check.ts'
export { fromDrizzle, fromKnex, fromKysely, fromPrisma, fromTypeOrm } from './foreign-transactions.ts'
export { type Housekeeping, runHousekeeping, runRetention, startHousekeeping } from './housekeeping.ts'
export {
  type HttpAnswer,
  type HttpOutcome,
  type HttpProblem,
  type HttpRequest,
  type IdempotentHandlerOptions,
  idempotentHandler,
} from './http-handler.ts'
export {
  type IdempotencyRequest,
  type IdempotentFunction,
  type IdempotentFunctionOptions,
  idempotentFunction,
  type Replayable,
  withIdempotency,
} from './idempotency.ts'
export type { Inbound, InboundMapping, Mapped } from './inbound.ts'
export {
  cloudEventMessages,
  fencepostMessages,
  type HeaderMessagesOptions,
  headerMessages,
} from './inbound-formats.ts'
export type { OnProcessed, RetryPolicies, RetryPolicy } from './inbox-options.ts'
export type { InboxTransaction } from './inbox-transaction.ts'
export { createSagaKit, type HousekeepingOptions, type SagaKit, type SagaKitOptions } from './kit.ts'
export { type HeldLock, type LockManager, type LockOptions, type UnderLocks, withLocks } from './locks.ts'
export type {
  Delivery,
  Handler,
  Handlers,
  InboundMessage,
  MessagePublisher,
  MessageSubscriber,
  OutboundMessage,
  OutsideHandler,
  Received,
  Subscription,
  TransactionalHandler,
  Verdict,
} from './messages.ts'
export { type PrometheusClient, sagaMetrics } from './metrics.ts'
export { migrate, plans } from './migrate.ts'
export { disableNotify, enableNotify, wakeOnNotify } from './notify.ts'
export { outsideTransactions } from './open-transactions.ts'
export { type OutboxEvent, type OutboxLag, outboxLag, publish } from './outbox.ts'
export type { Schemas, StandardSchema } from './payload.ts'
export { createPostgresLocks } from './postgres-locks.ts'
export { createQuorumLocks, withQuorumIdempotency } from './quorum.ts'
export { runRecovery } from './recovery.ts'
export { createOutboxRelay, type OutboxRelay, type RelayOptions } from './relay.ts'
export {
  defineSaga,
  defineSagaPart,
  type SagaContext,
  type SagaDefinition,
  type SagaPart,
  type SagaPartStep,
  type SagaStepDefinition,
  sagaResults,
  type TypedSaga,
  type TypedStep,
} from './saga-definition.ts'
export {
  compensateSaga,
  type DrivenBy,
  getSaga,
  listSagas,
  retrySaga,
  type SagaFilter,
  type SagaStatus,
  type SagaSummary,
  type SagaView,
} from './saga-instances.ts'
export { createSagaRunner, type SagaRunner, type SagaRunnerOptions } from './saga-runner.ts'
export {
  type Compensation,
  compensateSagaStep,
  processSagaStep,
  type SagaStepHandlers,
  type SagaStepRequest,
} from './saga-step.ts'
export { runIdempotentStep } from './step.ts'
export type { Refusal, StepContext, StepHandlers, StepOutcome, StepRequest } from './step-definition.ts'
export { unparkStep } from './step-record.ts'
export type { OnUnhandled, Unhandled } from './unhandled.ts'
