/**
 * The transaction in which a message is marked as processed and its handler works: one of the kit, or one that the
 * application's query builder or ORM begins and commits.
 *
 * Owns what makes the second kind safe: that it is a transaction, and that it has run the work and not hidden its failure.
 */
import { asked, isOutage, markOutage, sqlState, sqlStateOf, type Tx } from './database.ts'
import { NotInTransactionError, SagaConfigError, TransactionAbortedError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import { inTransaction, isInTransaction } from './open-transactions.ts'

/**
 * Begins a transaction, runs the work in it, and commits; rolls back if the work throws, and throws the same. `own` is
 * what handlers get of it: the transaction as the library knows it.
 */
export type InboxTransaction<O = unknown> = <T>(work: (tx: Tx, own: O) => Promise<T>) => Promise<T>

export async function transactionOfInbox<T>(
  kit: SagaKit,
  begin: InboxTransaction | undefined,
  work: (tx: Tx, own: unknown) => Promise<T>,
): Promise<T> {
  if (begin === undefined) return kit.transaction((tx) => work(tx, undefined))
  let end: { readonly result: T } | undefined
  let failure: unknown
  let begun = false
  const run = begin(async (tx, own) => {
    begun = true
    end = undefined
    try {
      await requireTransaction(tx)
      // Of the kit's pool: what the handler calls of the kit joins this transaction.
      const result = await inTransaction(kit.pool, tx, () => work(tx, own))
      await requireIntact(tx)
      end = { result }
      return result
    } catch (error) {
      failure = error
      throw error
    }
  })
  await run.catch((error: unknown) => {
    // Where the connection is gone, some libraries throw that their ROLLBACK failed. Where none is to be had, each has an error of
    // its own, and what has not begun says nothing about the message.
    if (!begun || isOutage(failure)) markOutage(error)
    throw error
  })
  if (end !== undefined) return end.result
  throw new SagaConfigError(
    "the consumer's `transaction` came to its end without having run its work to the end; await the work, and let its error through",
    { cause: failure },
  )
}

const savepoint = 'fencepost_inbox'

/** Otherwise each statement would commit by itself, the inbox row before the work. */
async function requireTransaction(tx: Tx): Promise<void> {
  if (isInTransaction(tx) === false) throw new NotInTransactionError("the consumer's `transaction`")
  try {
    // PostgreSQL allows it in a transaction alone.
    await asked(tx.query(`SAVEPOINT ${savepoint}`))
  } catch (error) {
    if (sqlStateOf(error) !== sqlState.noTransaction) throw error
    throw new NotInTransactionError("the consumer's `transaction`", { cause: error })
  }
}

/**
 * The work may have caught the error of a statement. Then COMMIT is answered with ROLLBACK, and most libraries take that for
 * success: the message would be acknowledged, and nothing of it be there.
 */
async function requireIntact(tx: Tx): Promise<void> {
  try {
    await tx.query(`RELEASE SAVEPOINT ${savepoint}`)
  } catch (error) {
    if (sqlStateOf(error) !== sqlState.failedTransaction) throw error
    throw new TransactionAbortedError({ cause: error })
  }
}
