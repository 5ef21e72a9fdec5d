/**
 * Locks in PostgreSQL itself, so that `resources` works without a sidecar.
 *
 * Owns the rows of `locks`: who holds a resource, under which token, until when. All resources of one call are taken in
 * one statement, in the callers' common order, or none is. The lease is by the database's clock, so a holder that is
 * paused or dead loses it, and no connection is kept meanwhile: it works behind a pooler, too. Two that come at the same
 * moment meet in an advisory lock of the short transaction, and the second is refused at once.
 * Tokens come from the sequence of the kit's steps, so both may guard one resource (`fences.ts`). What makes a write
 * safe is the fence there, not this lock.
 */
import { isOutage, safeInteger, type Tx } from './database.ts'
import { LeaseEndedError, LockNotAcquiredError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import { type HeldLock, inLockOrder, type LockManager } from './locks.ts'
import { refuseInTransaction } from './open-transactions.ts'

/** A holder stops a tenth before the end of its lease, for clocks that run at different speeds. */
const safeShare = 0.9

/** For a rival that is being served in this moment. */
const collisionRetryMs = 50

/** A refused caller looks again at least this often: most holders release before their lease ends. */
const retryMaxMs = 1_000

const outageRetryMs = 1_000

export function createPostgresLocks(kit: SagaKit): LockManager {
  return {
    async acquire(resources, { leaseMs }) {
      refuseInTransaction(
        kit.pool,
        'a lock',
        'others see it only when it is committed: take it before the transaction',
      )
      const sorted = inLockOrder(resources)
      const owner = kit.random.hex(16)
      let begunMonoMs = 0
      const fencingToken = await kit
        .transaction((tx) => {
          // Not before: the lease is not shorter by the wait for a connection.
          begunMonoMs = kit.clock.monoMs()
          return take(kit, tx, sorted, owner, leaseMs)
        })
        .catch((error: unknown) => {
          if (isOutage(error)) throw new LockNotAcquiredError(sorted, outageRetryMs, { cause: error })
          throw error
        })
      return new PostgresLock(kit, sorted, owner, fencingToken, begunMonoMs + leaseMs * safeShare)
    },
  }
}

async function take(
  kit: SagaKit,
  tx: Tx,
  resources: readonly string[],
  owner: string,
  leaseMs: number,
): Promise<number> {
  const s = kit.schema
  const alone = await tx.query<{ alone: boolean }>(
    `SELECT bool_and(pg_try_advisory_xact_lock(hashtextextended($2 || r, 0))) AS alone FROM unnest($1::text[]) AS r`,
    [resources, `fencepost/locks:${kit.schemaName}:`],
  )
  if (!alone.rows[0]!.alone) throw new LockNotAcquiredError(resources, collisionRetryMs)
  const held = await tx.query<{ left_ms: number | null }>(
    `SELECT (extract(epoch FROM max(lease_until) - clock_timestamp()) * 1000)::float8 AS left_ms FROM ${s}.locks
     WHERE resource = ANY($1) AND lease_until > clock_timestamp()`,
    [resources],
  )
  const leftMs = held.rows[0]!.left_ms
  if (leftMs !== null) throw new LockNotAcquiredError(resources, Math.min(retryMaxMs, Math.max(1, leftMs)))
  const taken = await tx.query<{ token: string }>(
    `INSERT INTO ${s}.locks (resource, owner, fencing_token, lease_until)
     SELECT r, $2, t.token, clock_timestamp() + $3 * interval '1 ms'
     FROM (SELECT nextval('${s}.fencing_tokens') AS token) AS t, unnest($1::text[]) AS r
     ON CONFLICT (resource) DO UPDATE
       SET owner = EXCLUDED.owner, fencing_token = EXCLUDED.fencing_token, lease_until = EXCLUDED.lease_until
     RETURNING fencing_token AS token`,
    [resources, owner, leaseMs],
  )
  return safeInteger(taken.rows[0]!.token)
}

class PostgresLock implements HeldLock {
  readonly fencingToken: number
  readonly #kit: SagaKit
  readonly #resources: readonly string[]
  readonly #owner: string
  readonly #over = new AbortController()
  #timer: { cancel(): void }

  constructor(
    kit: SagaKit,
    resources: readonly string[],
    owner: string,
    fencingToken: number,
    goodUntilMonoMs: number,
  ) {
    this.#kit = kit
    this.#resources = resources
    this.#owner = owner
    this.fencingToken = fencingToken
    this.#timer = this.#until(goodUntilMonoMs)
  }

  get signal(): AbortSignal {
    return this.#over.signal
  }

  #until(monoMs: number): { cancel(): void } {
    const { clock } = this.#kit
    return clock.timer(Math.max(0, monoMs - clock.monoMs()), () => this.#lose())
  }

  #lose(): LeaseEndedError {
    const error = new LeaseEndedError(this.#resources.join(', '))
    this.#timer.cancel()
    this.#over.abort(error)
    return error
  }

  async renew(leaseMs: number): Promise<void> {
    // What has ended for its holder stays ended, also if the row would still be ours.
    this.signal.throwIfAborted()
    const begunMonoMs = this.#kit.clock.monoMs()
    const { rowCount } = await this.#kit.query(
      `UPDATE ${this.#kit.schema}.locks SET lease_until = clock_timestamp() + $3 * interval '1 ms'
       WHERE resource = ANY($1) AND owner = $2 AND lease_until > clock_timestamp()`,
      [this.#resources, this.#owner, leaseMs],
    )
    if (rowCount !== this.#resources.length) throw this.#lose()
    this.#timer.cancel()
    this.#timer = this.#until(begunMonoMs + leaseMs * safeShare)
  }

  async release(): Promise<void> {
    this.#timer.cancel()
    await this.#kit.query(`DELETE FROM ${this.#kit.schema}.locks WHERE resource = ANY($1) AND owner = $2`, [
      this.#resources,
      this.#owner,
    ])
  }
}
