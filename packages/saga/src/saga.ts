/**
 * The entry point of the package: `import { createSagaKit } from '@fencepost/saga'`. No module of the package imports
 * it.
 *
 * Adapters for brokers have their own entry points, so that a service loads only the clients that it uses:
 * `@fencepost/saga/rabbitmq`, `…/nats`, `…/redis-streams`, `…/webhook`, `…/mailbox`, `…/kafka`. Programs that
 * administer the tables use `@fencepost/saga/admin`.
 */

export { type SagaBacklog, sagaBacklog } from './backlog.ts'
export type { Consumer, ConsumerOptions } from './consumer.ts'
export { createConsumer } from './consumer.ts'
export type { Pool, Tx } from './database.ts'
export type { DeadLetter, DeadLetterFilter } from './dead-letters.ts'
export { discardDeadLetters, listDeadLetters, replayDeadLetters } from './dead-letters.ts'
export * from './errors.ts'
export type { SagaEvent, SagaEvents } from './events.ts'
export { assertFence, fencedUpdate, RowNotFoundError } from './fences.ts'
export type { QuorumCheck } from './first-check.ts'
export { fromDrizzle, fromKnex, fromKysely, fromPrisma, fromTypeOrm } from './foreign-transactions.ts'
export type { Handler, Handlers, OutsideHandler, Received, TransactionalHandler } from './handlers.ts'
export { type Housekeeping, runHousekeeping, startHousekeeping } from './housekeeping.ts'
export type { HousekeepingOptions } from './housekeeping-options.ts'
export {
  type HttpAnswer,
  type HttpOutcome,
  type HttpProblem,
  type HttpRequest,
  type IdempotentHandlerOptions,
  idempotentHandler,
} from './http-handler.ts'
export type { IdempotencyRequest, Replayable } from './idempotency.ts'
export { withIdempotency } from './idempotency.ts'
export {
  type IdempotentFunction,
  type IdempotentFunctionOptions,
  idempotentFunction,
} from './idempotent-calls.ts'
export type { Inbound, InboundMapping, Mapped } from './inbound.ts'
export {
  cloudEventMessages,
  fencepostMessages,
  type HeaderMessagesOptions,
  headerMessages,
} from './inbound-formats.ts'
export type { OnProcessed } from './inbox-results.ts'
export type { InboxTransaction } from './inbox-transaction.ts'
export type { SagaKit, SagaKitOptions } from './kit.ts'
export { createSagaKit } from './kit.ts'
export type { HeldLock, LockManager, LockOptions, UnderLocks } from './locks.ts'
export { withLocks } from './locks.ts'
export type {
  Delivery,
  InboundMessage,
  MessagePublisher,
  MessageSubscriber,
  OutboundMessage,
  Subscription,
  Verdict,
} from './messages.ts'
export { type PrometheusClient, sagaMetrics } from './metrics.ts'
export { migrate, plans } from './migrate.ts'
export { disableNotify, enableNotify, wakeOnNotify } from './notify.ts'
export { outsideTransactions } from './open-transactions.ts'
export type { OutboxEvent, OutboxLag } from './outbox.ts'
export { outboxLag, publish } from './outbox.ts'
export type { Schemas, StandardSchema } from './payload.ts'
export { createPostgresLocks } from './postgres-locks.ts'
export { createQuorumLocks, withQuorumIdempotency } from './quorum.ts'
export { runRecovery } from './recovery.ts'
export type { OutboxRelay, RelayOptions } from './relay.ts'
export { createOutboxRelay } from './relay.ts'
export { runRetention } from './retention.ts'
export type { RetryPolicies, RetryPolicy } from './retry-policy.ts'
export type {
  SagaContext,
  SagaDefinition,
  SagaPart,
  SagaPartStep,
  SagaStepDefinition,
  TypedSaga,
  TypedStep,
} from './saga-definition.ts'
export { defineSaga, defineSagaPart, sagaResults } from './saga-definition.ts'
export type { DrivenBy, SagaFilter, SagaStatus, SagaSummary, SagaView } from './saga-instances.ts'
export { compensateSaga, getSaga, listSagas, retrySaga } from './saga-instances.ts'
export type { SagaRunner, SagaRunnerOptions } from './saga-runner.ts'
export { createSagaRunner } from './saga-runner.ts'
export type { Compensation, SagaStepHandlers, SagaStepRequest } from './saga-step.ts'
export { compensateSagaStep, processSagaStep } from './saga-step.ts'
export { runIdempotentStep } from './step.ts'
export type { Refusal, StepContext, StepHandlers, StepOutcome, StepRequest } from './step-definition.ts'
export { unparkStep } from './step-record.ts'
export type { OnUnhandled, Unhandled } from './unhandled.ts'
