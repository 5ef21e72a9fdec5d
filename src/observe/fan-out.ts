/** Hands every event to each subscriber. One that fails is its own bug and must not become the request's. */

import type { CoreEvent, Events } from '../core/events.ts'

export type Subscriber = (event: CoreEvent) => void

/** @param onFailure told of a subscriber that threw; it goes on being called */
export function fanOut(subscribers: readonly Subscriber[], onFailure: (cause: unknown) => void): Events {
  return {
    publish: (event) => {
      for (const subscriber of subscribers) {
        try {
          subscriber(event)
        } catch (cause) {
          onFailure(cause)
        }
      }
    },
  }
}
