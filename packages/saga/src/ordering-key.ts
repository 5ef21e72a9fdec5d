/** Which messages must be handled in order: those with the same key, as the consumer, the mapping or the aggregate says. */
import { NonRetryableError } from './errors.ts'
import type { Handler } from './handlers.ts'
import type { Arrival } from './inbound.ts'
import { storedKey } from './inbox-rows.ts'
import type { InboundMessage } from './messages.ts'

/** undefined: this message is in no order; `none`: no message is. */
export type OrderingKey = ((message: InboundMessage) => string | undefined) | 'none'

export function orderingKeyOf(orderingKey: OrderingKey | undefined, arrival: Arrival): string | null {
  const { message } = arrival
  if (orderingKey === 'none') return null
  const key = orderingKey === undefined ? arrival.orderingKey : (orderingKey(message) ?? null)
  if (key !== undefined) return key === null ? null : storedKey(key)
  return message.aggregateId === '' ? null : storedKey(`${message.aggregateType}/${message.aggregateId}`)
}

/** The handler for a message that the application's own `orderingKey` could not read. */
export function unreadableKey(error: unknown): Handler {
  return async () => {
    throw new NonRetryableError('the ordering key of the message cannot be read', { cause: error })
  }
}
