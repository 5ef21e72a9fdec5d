/**
 * The message whose handler runs now, for what a saga's step remembers of it: which message to replay when an operator
 * lets the step run again.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

export type CurrentMessage = {
  readonly consumerId: string
  /** As the inbox stores it. */
  readonly messageId: string
}

const current = new AsyncLocalStorage<CurrentMessage>()

export function handlingMessage<T>(message: CurrentMessage, work: () => Promise<T>): Promise<T> {
  return current.run(message, work)
}

/** undefined outside the handler of a consumer. */
export function currentMessage(): CurrentMessage | undefined {
  return current.getStore()
}
