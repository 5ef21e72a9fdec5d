/**
 * A publisher that keeps its messages, and refuses, hangs or is away as the test says, message by message.
 */

import {
  BrokerUnavailableError,
  type MessagePublisher,
  type OutboundMessage,
  PublishRefusedError,
} from '@fencepost/saga'

export type Reaction = 'confirm' | 'refuse' | 'unavailable' | 'hang'

export class RecordingPublisher implements MessagePublisher {
  readonly confirmed: OutboundMessage[] = []
  /** Every call, refused ones included. */
  readonly calls: OutboundMessage[] = []
  react: (message: OutboundMessage) => Reaction | Promise<Reaction> = () => 'confirm'

  async publish(message: OutboundMessage): Promise<void> {
    this.calls.push(message)
    const reaction = await this.react(message)
    switch (reaction) {
      case 'confirm':
        this.confirmed.push(message)
        return
      case 'refuse':
        throw new PublishRefusedError('no queue would get it')
      case 'unavailable':
        throw new BrokerUnavailableError('no connection')
      case 'hang':
        return new Promise(() => {})
    }
  }

  async close(): Promise<void> {}

  /** `n` of the payloads confirmed, in order. */
  numbersOf(aggregateId: string): number[] {
    return this.confirmed
      .filter((message) => message.aggregateId === aggregateId)
      .map(({ body }) => JSON.parse(body).n)
  }
}
