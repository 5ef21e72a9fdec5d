// The kit keeps no session state: it works behind a pooler that lends a connection for one transaction.
import { expect, test } from 'vitest'
import { withIdempotency } from '../../packages/saga/src/idempotency.ts'
import { migrate } from '../../packages/saga/src/migrate.ts'
import { startPgBouncer } from '../support/pgbouncer-server.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { testKit } from '../support/saga-kit.ts'

test('migration and idempotent work behind PgBouncer in transaction mode, forty callers on two connections', async () => {
  await using server = await startPostgres()
  await using pooler = await startPgBouncer(server)
  const pool = () => server.pool({ host: '127.0.0.1', port: pooler.port, max: 20 })
  const [kit, other] = [await testKit(server, { pool: pool() }), await testKit(server, { pool: pool() })]
  expect(await Promise.all([migrate(kit), migrate(kit), migrate(other)])).toHaveLength(3)
  const ask = (key: string) =>
    withIdempotency(
      kit,
      { scope: 'test', key, request: {}, transaction: { statementTimeoutMs: 20_000 } },
      async (tx) => {
        const { rows } = await tx.query('SELECT $1::text AS key', [key])
        return rows[0]!.key
      },
    )
  const keys = Array.from({ length: 200 }, (_, index) => `key-${index % 100}`)
  const answers = await Promise.all(keys.map(ask))
  expect(answers.map(({ result }) => result)).toEqual(keys)
  expect(answers.filter(({ replayed }) => replayed)).toHaveLength(100)
  // A setting that outlived its transaction would apply to every caller of the connection.
  const { rows } = await kit.pool.query('SHOW statement_timeout')
  expect(rows[0].statement_timeout).toBe('0')
})
