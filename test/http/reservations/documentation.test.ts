/** The SQL of docs/guide/reservations.md works as described. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { startPostgres } from '../../support/postgres-server.ts'

test('the fenced writes for PostgreSQL refuse a smaller token and take an equal or larger one', async () => {
  const page = readFileSync('docs/guide/reservations.md', 'utf8')
  const sql = /^## Writes that[\s\S]*?^```sql\n([\s\S]*?)^```/m.exec(page)?.[1] ?? ''
  const statements = sql
    .replace(/^--.*$/gm, '')
    .split(';')
    .map((text) => text.trim())
    .filter((text) => text !== '')
  const [alter = '', payment = '', insert = '', update = '', upsert = ''] = statements
  expect(statements.length).toBe(5)
  await using server = await startPostgres()
  const pool = server.pool()
  await pool.query('CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)')
  await pool.query('INSERT INTO account VALUES (1, 100)')
  await pool.query('CREATE TABLE state (id int PRIMARY KEY, body text, fencing_token bigint NOT NULL)')
  await pool.query(alter)
  await pool.query(payment)
  const changed = async (statement: string, ...values: unknown[]) =>
    (await pool.query(statement, values)).rowCount
  for (const [token, rows] of [
    [1_838_255_967_430_657, 1],
    [1_838_255_967_430_657, 1],
    [1_838_255_967_430_656, 0],
    [1_838_255_967_430_658, 1],
  ] as const) {
    expect(await changed(update, 1, token, 1)).toBe(rows)
    expect(await changed(upsert, 1, 'text', token)).toBe(rows)
  }
  // The holder whose COMMIT went unanswered, or the next one after a crash, writes again: 5 are taken once.
  await pool.query('UPDATE account SET balance = 100')
  const paid: boolean[] = []
  for (const token of [1_838_255_967_430_659, 1_838_255_967_430_659, 1_838_255_967_430_660]) {
    const transaction = await pool.connect()
    await transaction.query('BEGIN')
    const first = await transaction.query(insert, ['order-1', 5, token])
    const both = first.rowCount === 1 && (await transaction.query(update, [5, token, 1])).rowCount === 1
    await transaction.query(both ? 'COMMIT' : 'ROLLBACK')
    transaction.release()
    paid.push(both)
  }
  expect(paid).toEqual([true, false, false])
  expect((await pool.query('SELECT balance FROM account')).rows).toEqual([{ balance: 95 }])
})
