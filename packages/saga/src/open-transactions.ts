/**
 * The transactions that are open around the code that runs now, so that a call inside one joins it.
 *
 * Owns that knowledge and the savepoints. A call that took a second connection while its caller holds one would wait
 * for ever as soon as as many callers as the pool has connections did the same.
 * A joined call is a savepoint: what it wrote is undone if it fails, and everything else is the outer transaction's.
 * Calls that join one transaction at the same time take turns, because they share one connection.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Pool, Tx } from './database.ts'
import { NestedTransactionError, TransactionEndedError } from './errors.ts'

type OpenTransaction = {
  /** undefined: a transaction of the application's, of whose pool nothing is known. */
  readonly pool: Pool | undefined
  readonly tx: Tx
  open: boolean
  /** The last of the calls that have joined. */
  tail: Promise<unknown>
  readonly outer: OpenTransaction | undefined
}

const around = new AsyncLocalStorage<OpenTransaction | undefined>()

/** The outermost by its handle, for calls that name it, wherever they come from. */
const byHandle = new WeakMap<object, OpenTransaction>()

/** Runs `work` as the content of a transaction that has just begun. */
export async function inTransaction<T>(pool: Pool, tx: Tx, work: () => Promise<T>): Promise<T> {
  const begun = opened(pool, tx)
  byHandle.set(tx, begun)
  try {
    return await inside(begun, work)
  } finally {
    byHandle.delete(tx)
  }
}

function opened(pool: Pool | undefined, tx: Tx): OpenTransaction {
  return { pool, tx, open: true, tail: Promise.resolve(), outer: around.getStore() }
}

async function inside<T>(current: OpenTransaction, work: () => Promise<T>): Promise<T> {
  try {
    return await around.run(current, work)
  } finally {
    current.open = false
  }
}

/**
 * Runs `work` as if no transaction were open around it: for loops and deliveries, whoever started them, and for what an
 * application wants to keep even if its transaction fails. It needs a connection of its own.
 */
export function outsideTransactions<T>(work: () => T): T {
  return around.run(undefined, work)
}

/** The innermost open transaction of this pool around the caller. */
export function transactionAround(pool: Pool): OpenTransaction | undefined {
  for (let one = around.getStore(); one !== undefined; one = one.outer)
    if (one.open && one.pool === pool) return one
  return undefined
}

/** A transaction that the caller names by its handle. */
export function transactionOf(tx: Tx): OpenTransaction {
  for (let one = around.getStore(); one !== undefined; one = one.outer)
    if (one.open && one.tx === tx) return one
  const known = byHandle.get(tx)
  if (known !== undefined) return known
  const foreign = opened(undefined, tx)
  byHandle.set(tx, foreign)
  return foreign
}

/**
 * Whether `tx` is in a transaction, where that is known without the server: the kit has begun it, or the client of `pg`
 * has seen it begin.
 */
export function isInTransaction(tx: Tx): boolean | undefined {
  const known = byHandle.get(tx)
  if (known?.pool !== undefined && known.open) return true
  const { getTransactionStatus } = tx as { getTransactionStatus?: () => string | null }
  if (typeof getTransactionStatus !== 'function') return undefined
  const status = getTransactionStatus.call(tx)
  return status === null ? undefined : status !== 'I'
}

/** Runs `work` on the connection of the transaction, after the calls that joined before. */
export function inTurn<T>(joined: OpenTransaction, work: () => Promise<T>): Promise<T> {
  const turn = joined.tail.then(() => {
    if (!joined.open) throw new TransactionEndedError()
    return work()
  })
  joined.tail = turn.catch(() => {})
  return turn
}

/** The same under a savepoint. */
export function join<T>(joined: OpenTransaction, work: (tx: Tx) => Promise<T>): Promise<T> {
  return inTurn(joined, () => underSavepoint(joined, work))
}

// One name for all: savepoints nest strictly, and a name stands for the innermost that bears it.
const savepoint = 'fencepost_joined'

async function underSavepoint<T>(outer: OpenTransaction, work: (tx: Tx) => Promise<T>): Promise<T> {
  const { pool, tx } = outer
  await tx.query(`SAVEPOINT ${savepoint}`)
  try {
    const result = await inside(opened(pool, tx), () => work(tx))
    await tx.query(`RELEASE SAVEPOINT ${savepoint}`)
    return result
  } catch (error) {
    // If that fails too, the connection is gone, and the transaction with it: the first error counts.
    await tx
      .query(`ROLLBACK TO SAVEPOINT ${savepoint}`)
      .then(() => tx.query(`RELEASE SAVEPOINT ${savepoint}`))
      .catch(() => {})
    throw error
  }
}

/** For what commits by itself: inside a transaction it would need a second connection, and would be undone in part. */
export function refuseInTransaction(pool: Pool, call: string, instead: string): void {
  if (transactionAround(pool) !== undefined) throw new NestedTransactionError(call, instead)
}
