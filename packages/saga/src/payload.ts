/** The payload that a handler gets: what the mapping read, or the body as JSON. */
import { NonRetryableError } from './errors.ts'
import type { Arrival } from './inbound.ts'

/** @throws NonRetryableError if the body is no JSON */
export function payloadOf({ message, payload }: Arrival): unknown {
  if (payload !== undefined) return payload.value
  try {
    return JSON.parse(message.body)
  } catch (error) {
    throw new NonRetryableError('the body of the message is not JSON', { cause: error })
  }
}
