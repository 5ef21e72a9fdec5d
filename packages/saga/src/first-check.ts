/**
 * The quorum's word before a delivery reaches the database: while another process handles the same message, a duplicate
 * waits without a connection.
 *
 * PostgreSQL decides. So a quorum that does not answer is passed over, and what the check says is never a reason to
 * acknowledge. The reservation is released in the end, not completed: PostgreSQL remembers the message, the nodes need not.
 */
import { type Client, ConflictError, DuplicateError, type Reservation } from '@fencepost/client'
import { storedId } from './inbox-rows.ts'
import type { SagaKit } from './kit.ts'
import type { InboundMessage } from './messages.ts'
import { requirePositive } from './option-checks.ts'
import { derivedKey } from './request-hash.ts'

export type QuorumCheck = {
  /** Of `@fencepost/client`, for a sidecar. */
  readonly client: Client
  /**
   * Of the reservation, which is renewed while the message is handled. The messages of a process that was killed wait for
   * its end. Default 10 s.
   */
  readonly leaseMs?: number
}

/** The message is in progress elsewhere. */
type Elsewhere = { readonly kind: 'away'; readonly delayMs: number }

/** The most that the check may add to a delivery while the quorum is away. */
const waitMaxMs = 1_000

/** Its holder may be done long before its lease ends, which is what the quorum says. */
const elsewhereMaxMs = 1_000

/** After the quorum gave no answer, deliveries go without the check for this time. */
const withoutQuorumMs = 10_000

export class FirstCheck {
  readonly #kit: SagaKit
  readonly #consumerId: string
  readonly #client: Client
  readonly #leaseMs: number
  #passedOverUntilMonoMs = Number.NEGATIVE_INFINITY

  constructor(kit: SagaKit, consumerId: string, { client, leaseMs = 10_000 }: QuorumCheck) {
    this.#kit = kit
    this.#consumerId = consumerId
    this.#client = client
    requirePositive({ 'quorum.leaseMs': leaseMs })
    this.#leaseMs = leaseMs
  }

  /** Runs `work`, unless the message is in progress elsewhere. */
  async around<T>(message: InboundMessage, work: () => Promise<T>): Promise<T | Elsewhere> {
    const beganMonoMs = this.#kit.clock.monoMs()
    const answer = await this.#reserve(message)
    if (answer instanceof ConflictError) {
      const durationMs = this.#kit.clock.monoMs() - beganMonoMs
      const { type } = message
      this.#kit.emit({ kind: 'consumed', consumerId: this.#consumerId, type, outcome: 'defer', durationMs })
      return { kind: 'away', delayMs: Math.min(answer.retryAfterMs, elsewhereMaxMs) }
    }
    try {
      return await work()
    } finally {
      // Before the verdict: a retry must not meet the reservation of its own first attempt.
      await answer?.release().catch((error: unknown) => {
        const resources = [`message ${message.messageId}`]
        this.#kit.emit({ kind: 'lock_release_failed', resources, error })
      })
    }
  }

  async #reserve({ messageId }: InboundMessage): Promise<Reservation | ConflictError | undefined> {
    const { clock, schemaName, emit } = this.#kit
    if (clock.monoMs() < this.#passedOverUntilMonoMs) return undefined
    const value = derivedKey(['inbox', schemaName, this.#consumerId, storedId(messageId)])
    const late = new AbortController()
    const timer = clock.timer(waitMaxMs, () =>
      late.abort(new Error(`no answer of the quorum within ${waitMaxMs} ms`)),
    )
    try {
      return await this.#client.reserve(value, { leaseMs: this.#leaseMs, signal: late.signal })
    } catch (error) {
      if (error instanceof ConflictError) return error
      // Whoever completed it: PostgreSQL knows whether the message was handled.
      if (error instanceof DuplicateError) return undefined
      this.#passedOverUntilMonoMs = clock.monoMs() + withoutQuorumMs
      emit({ kind: 'consumer_error', consumerId: this.#consumerId, error })
      return undefined
    } finally {
      timer.cancel()
    }
  }
}
