/**
 * What becomes of a message that no mapping reads, or that no handler is for: a dead letter, or passed over, as the
 * consumer was told, and an event in either case. No message is acknowledged without one of the two.
 *
 * Its dead letter parks no sequence: a type that this consumer does not handle is no gap in what it does handle.
 */
import { errorCode, errorText } from './error-meaning.ts'
import { type UnhandledTypeError, UnmappedMessageError } from './errors.ts'
import { deadLetterInbound, type Entry, notePassed, storedId } from './inbox-rows.ts'
import type { SagaKit } from './kit.ts'
import { type Delivery, hashOfBody, type InboundMessage, type Verdict } from './messages.ts'
import { newMessageId } from './outbox.ts'

export type Unhandled =
  | { readonly reason: 'unmapped'; readonly delivery: Delivery; readonly error: UnmappedMessageError }
  | {
      readonly reason: 'unhandled_type'
      readonly message: InboundMessage
      readonly delivery?: Delivery
      readonly error: UnhandledTypeError
    }

type Decision = 'dead-letter' | 'pass'

/** `pass`: acknowledged and forgotten, with an event; what waits behind it goes on. */
export type OnUnhandled = Decision | ((unhandled: Unhandled) => Decision)

export async function endUnhandled(
  kit: SagaKit,
  consumerId: string,
  retentionMs: number,
  onUnhandled: OnUnhandled,
  unhandled: Unhandled,
): Promise<Verdict> {
  const { reason, delivery, error } = unhandled
  const read = 'message' in unhandled ? unhandled.message : unreadMessage(kit, unhandled.delivery)
  const message = { ...read, messageId: storedId(read.messageId) }
  const { type, messageId } = message
  const report = (outcome: 'dead_letter' | 'passed' | 'returned') => {
    kit.emit({ kind: 'unhandled', consumerId, reason, messageId, type, outcome, error })
    kit.emit({ kind: 'consumed', consumerId, type, outcome, durationMs: 0, error })
  }
  const entry: Entry = {
    consumerId,
    message,
    hash: hashOfBody(delivery ?? message),
    orderingKey: null,
    retentionMs,
    ...(delivery === undefined ? {} : { delivery }),
  }
  if (decide(kit, consumerId, onUnhandled, unhandled) === 'pass') {
    if (reason === 'unhandled_type') await notePassed(kit, entry)
    report('passed')
    return { kind: 'ack' }
  }
  // Its sender keeps it and is told why, which is better than a table that any sender can fill.
  if (reason === 'unmapped' && delivery?.canRefuse === true) {
    report('returned')
    return { kind: 'refuse', reason: errorText(error) }
  }
  const cause = { code: errorCode(error), message: errorText(error) }
  await kit.transaction((tx) => deadLetterInbound(kit, tx, entry, cause, false))
  kit.emit({ kind: 'parked', what: `message ${messageId}`, error })
  report('dead_letter')
  return { kind: 'ack' }
}

/** What a mapping of the application's own throws counts as well. */
export function unmapped(error: unknown): UnmappedMessageError {
  return error instanceof UnmappedMessageError
    ? error
    : new UnmappedMessageError(errorText(error), { cause: error })
}

function decide(kit: SagaKit, consumerId: string, onUnhandled: OnUnhandled, unhandled: Unhandled): Decision {
  if (typeof onUnhandled === 'string') return onUnhandled
  try {
    return onUnhandled(unhandled)
  } catch (error) {
    kit.emit({ kind: 'consumer_error', consumerId, error })
    return 'dead-letter'
  }
}

/**
 * Without an identity of the broker's a further delivery makes a further dead letter: two messages of equal content may both
 * be meant, and a dead letter too many is better than a message lost.
 */
function unreadMessage(kit: SagaKit, delivery: Delivery): InboundMessage {
  const { body, headers, redelivered, deliveryId, properties } = delivery
  return {
    messageId: `unmapped ${deliveryId ?? newMessageId(kit)}`,
    type: properties.type ?? '',
    aggregateType: '',
    aggregateId: '',
    createdAt: '',
    body,
    headers,
    redelivered,
  }
}
