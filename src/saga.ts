/**
 * The package's door to the saga kit: `import { createSagaKit } from 'fencepost/saga'`. Nothing inside imports it.
 *
 * Adapters for brokers have doors of their own, so that nobody loads a client he does not use:
 * `fencepost/saga/rabbitmq`, `…/nats`, `…/redis-streams`, `…/webhook`, `…/mailbox`, `…/kafka`.
 */

export type { Consumer, ConsumerOptions } from './saga/consumer.ts'
export { createConsumer } from './saga/consumer.ts'
export type { Pool, Tx } from './saga/database.ts'
export type { DeadLetter, DeadLetterFilter } from './saga/dead-letters.ts'
export { discardDeadLetters, listDeadLetters, replayDeadLetters } from './saga/dead-letters.ts'
export * from './saga/errors.ts'
export type { SagaEvent, SagaEvents } from './saga/events.ts'
export { assertFence, fencedUpdate, RowNotFoundError } from './saga/fences.ts'
export type { Handler, OutsideHandler, Received, TransactionalHandler } from './saga/handlers.ts'
export type { IdempotencyRequest, Replayable } from './saga/idempotency.ts'
export { withIdempotency } from './saga/idempotency.ts'
export type { SagaKit, SagaKitOptions } from './saga/kit.ts'
export { createSagaKit } from './saga/kit.ts'
export type { HeldLock, LockManager, LockOptions, UnderLocks } from './saga/locks.ts'
export { withLocks } from './saga/locks.ts'
export type {
  InboundMessage,
  MessagePublisher,
  MessageSubscriber,
  OutboundMessage,
  Subscription,
  Verdict,
} from './saga/messages.ts'
export { type PrometheusClient, sagaMetrics } from './saga/metrics.ts'
export { migrate, plans } from './saga/migrate.ts'
export { disableNotify, enableNotify, wakeOnNotify } from './saga/notify.ts'
export type { OutboxEvent, OutboxLag } from './saga/outbox.ts'
export { outboxLag, publish } from './saga/outbox.ts'
export { createQuorumLocks, withQuorumIdempotency } from './saga/quorum.ts'
export { runRecovery } from './saga/recovery.ts'
export type { OutboxRelay, RelayOptions } from './saga/relay.ts'
export { createOutboxRelay } from './saga/relay.ts'
export { runRetention } from './saga/retention.ts'
export type { SagaContext, SagaDefinition, SagaStepDefinition } from './saga/saga-definition.ts'
export { defineSaga } from './saga/saga-definition.ts'
export type { SagaStatus, SagaView } from './saga/saga-instances.ts'
export { getSaga, retrySaga, turnSagaBack } from './saga/saga-instances.ts'
export type { SagaRunner, SagaRunnerOptions } from './saga/saga-runner.ts'
export { createSagaRunner } from './saga/saga-runner.ts'
export type { Compensation, SagaStepHandlers, SagaStepRequest } from './saga/saga-step.ts'
export { compensateSagaStep, processSagaStep } from './saga/saga-step.ts'
export { sagaStanding } from './saga/standing.ts'
export type { StepContext, StepHandlers, StepOutcome, StepRequest } from './saga/step.ts'
export { runIdempotentStep } from './saga/step.ts'
export { unparkStep } from './saga/step-record.ts'
