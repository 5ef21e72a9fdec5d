/**
 * The quorum behind the kit: its reservations as locks, and as a first check before PostgreSQL.
 *
 * Owns the translation between the client of the reservation API and the kit's words. The quorum saves work and spares
 * the database; PostgreSQL decides. If the quorum is unavailable, a lock is refused (no caller may believe that it
 * holds one), and the first check is left out (the second one is the one that counts).
 */
import {
  type Client,
  ConflictError,
  DuplicateError,
  FencepostError,
  LeaseLostError,
  QuorumUnavailableError,
  RefusedError,
  type Reservation,
  UndecidedError,
  UnreachableError,
} from '@fencepost/client'
import type { Tx } from './database.ts'
import { LeaseEndedError, LockNotAcquiredError, OperationInProgressError } from './errors.ts'
import { type IdempotencyRequest, type Replayable, withIdempotency } from './idempotency.ts'
import type { SagaKit } from './kit.ts'
import type { LockManager } from './locks.ts'
import { derivedKey } from './request-hash.ts'

/** Delay before a lock is requested again after the quorum was unavailable. */
const outageRetryMs = 1_000

/** Locks on the quorum: all resources under one reservation, or none. */
export function createQuorumLocks(client: Client, options: { readonly tenant?: string } = {}): LockManager {
  return {
    async acquire(resources, { leaseMs }) {
      const reservation = await client
        .reserve(
          resources.map((resource) => `lock:${resource}`),
          { leaseMs, heartbeat: false, ...options },
        )
        .catch((error: unknown) => {
          if (error instanceof ConflictError) throw new LockNotAcquiredError(resources, error.retryAfterMs)
          if (isWrongCall(error)) throw error
          throw new LockNotAcquiredError(resources, outageRetryMs, { cause: error })
        })
      return {
        fencingToken: reservation.fencingToken,
        signal: reservation.signal,
        renew: (renewedMs) =>
          reservation.extend(renewedMs).catch((error: unknown) => {
            if (error instanceof LeaseLostError)
              throw new LeaseEndedError(resources.join(', '), { cause: error })
            throw error
          }),
        // Released, not completed: a lock is taken again and again.
        release: () => reservation.release(),
      }
    },
  }
}

/** A lease or a resource that the API does not take: a fault of the caller, that no waiting mends. */
function isWrongCall(error: unknown): boolean {
  if (!(error instanceof FencepostError)) return true
  return error instanceof RefusedError && (error.status === 400 || error.status === 413)
}

type HybridRequest = IdempotencyRequest & {
  /** The reservation's lease, renewed while the work runs. Default 30 s. */
  readonly leaseMs?: number
}

/**
 * {@link withIdempotency} behind a check of the quorum: a rival of a request in progress is refused without a
 * connection to the database. If the quorum says that the request is done, PostgreSQL still has the result.
 */
export async function withQuorumIdempotency<T>(
  kit: SagaKit,
  client: Client,
  { leaseMs = 30_000, ...request }: HybridRequest,
  work: (tx: Tx) => Promise<T>,
): Promise<Replayable<T>> {
  const value = derivedKey(['hybrid', request.scope, request.key])
  const reservation = await client
    .reserve(value, { leaseMs })
    .catch((error: unknown): Reservation | undefined => {
      if (error instanceof DuplicateError || isUnknown(error)) return undefined
      if (error instanceof ConflictError)
        throw new OperationInProgressError(`${request.scope} ${request.key}`, error.retryAfterMs)
      throw error
    })
  try {
    const answer = await withIdempotency(kit, request, work)
    // A hint for later requests; without it they find the same in PostgreSQL.
    await reservation?.complete().catch(() => {})
    return answer
  } catch (error) {
    await reservation?.release().catch(() => {})
    throw error
  }
}

function isUnknown(error: unknown): boolean {
  return (
    error instanceof QuorumUnavailableError ||
    error instanceof UnreachableError ||
    error instanceof UndecidedError
  )
}
