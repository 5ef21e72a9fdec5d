/**
 * The idempotent consumer: a message takes effect once in the database, however often it is delivered.
 *
 * Owns the subscription at the broker and the poll for dead letters to replay. `inbox.ts` decides about a delivery.
 */
import { keepProcessAlive } from './ambient.ts'
import { replayOnce } from './dead-letter-replay.ts'
import { startHousekeeping } from './housekeeping.ts'
import { Inbox } from './inbox.ts'
import type { InboxOptions } from './inbox-options.ts'
import type { InboxTransaction } from './inbox-transaction.ts'
import type { Handlers, MessageSubscriber, Subscription } from './messages.ts'
import { outsideTransactions } from './open-transactions.ts'
import { requireName, requirePositive, requireWhole } from './option-checks.ts'
import { requireSetUp } from './setup-errors.ts'

/** `O`: the transaction of the application's library, which its handlers get. */
export type ConsumerOptions<M extends object = Record<string, unknown>, O = unknown> = Omit<
  InboxOptions,
  'handlers' | 'transaction'
> & {
  /** By message type. */
  readonly handlers: Handlers<M, O>
  /** {@link InboxOptions.transaction}: `(work) => db.transaction((own) => work(fromDrizzle(own, sql), own))`. */
  readonly transaction?: InboxTransaction<O>
  readonly subscriber: MessageSubscriber
  /** Default 10. */
  readonly concurrency?: number
  /** Interval of the poll for dead letters to replay. Default 1 s. */
  readonly replayIntervalMs?: number
}

export interface Consumer extends AsyncDisposable {
  stop(): Promise<void>
}

/** Deliveries are in no transaction, also where the consumer was created inside one. */
export function createConsumer<M extends object = Record<string, unknown>, O = unknown>(
  options: ConsumerOptions<M, O>,
): Promise<Consumer> {
  // Inside, a payload is what the message has; that it is of its type is between sender and handler.
  const untyped = options as unknown as ConsumerOptions
  return outsideTransactions(() => startConsumer(untyped))
}

async function startConsumer(options: ConsumerOptions): Promise<Consumer> {
  const { kit, consumerId, concurrency = 10, replayIntervalMs = 1_000 } = options
  requireName('consumerId', consumerId)
  requireWhole({ concurrency })
  requirePositive({ replayIntervalMs })
  const inbox = new Inbox(options)
  await requireSetUp(kit)
  const onError = (error: unknown) => kit.emit({ kind: 'consumer_error', consumerId, error })
  const release = keepProcessAlive()
  const subscription: Subscription = await options.subscriber
    .subscribe((delivery) => inbox.deliver(delivery), { concurrency, onError })
    .catch((error: unknown) => {
      release()
      throw error
    })
  const housekeeping = startHousekeeping(kit)
  let stopped = false
  let replaying = Promise.resolve()
  const replay = () => {
    replaying = replayOnce(kit, consumerId, options.handlers, options, () => !stopped)
      .catch(onError)
      .then(again, again)
  }
  const again = () => {
    if (!stopped) timer = kit.clock.timer(replayIntervalMs, replay)
  }
  let timer = kit.clock.timer(replayIntervalMs, replay)
  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= end()
    return stopping
  }
  const end = async () => {
    stopped = true
    inbox.stop()
    timer.cancel()
    await Promise.all([subscription.close(), replaying, housekeeping.stop()])
    release()
  }
  return { stop, [Symbol.asyncDispose]: stop }
}
