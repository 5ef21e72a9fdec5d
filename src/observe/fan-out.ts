/** Hands every event to each subscriber. A subscriber that fails must not fail the request. */

import type { CoreEvent, Events } from '../core/events.ts'

export type Subscriber = (event: CoreEvent) => void

/** @param onFailure gets what a subscriber threw; that subscriber still gets later events */
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
