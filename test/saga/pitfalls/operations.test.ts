// Pitfalls 17 and 19: clean-up and broken connections. Each first as it is usually written, then as the kit does it.
import { beforeAll, describe, expect, test } from 'vitest'
import { runRetention } from '../../../packages/saga/src/housekeeping.ts'
import { runIdempotentStep } from '../../../packages/saga/src/step.ts'
import { duringTests } from '../../support/during-tests.ts'
import { FakeProvider } from '../../support/fake-provider.ts'
import { startPostgres } from '../../support/postgres-server.ts'
import { TestProcess } from '../../support/processes.ts'
import { countOf, type TestKit, testKit } from '../../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
})

describe('17 · clean-up by age alone', () => {
  const pay = (provider: FakeProvider, key: string, effect?: () => Promise<never>) =>
    runIdempotentStep(
      kit,
      { scope: 'pay', key, request: {}, leaseMs: 30_000, ttlMs: 1 },
      { effect: effect ?? (() => provider.charge(`${Math.random()}`, 10)), commit: async () => null },
    )
  const begin = async (key: string) => {
    const stuck = pay(new FakeProvider(), key, () => new Promise(() => {}))
    stuck.catch(() => 'it lost its lease, and nobody is there to hear it')
    while ((await countOf(kit, 'idempotency_keys WHERE key = $1', [key])) === 0)
      await new Promise(setImmediate)
  }
  test('usual: the key of a running payment is removed, and the payment made a second time', async () => {
    await begin('by-age')
    await kit.pool.query(
      `DELETE FROM ${kit.schema}.idempotency_keys WHERE expires_at < clock_timestamp() + interval '1 s'`,
    )
    expect((await pay(new FakeProvider(), 'by-age')).replayed).toBe(false)
  })
  test('here: running keys stay, however old; the rest is deleted in batches', async () => {
    await begin('kept')
    await runRetention(kit)
    await expect(pay(new FakeProvider(), 'kept')).rejects.toThrow('in progress')
  })
})

describe('19 · a connection breaks between two statements', () => {
  /** A process that holds a connection, has it ended by the server, and says whether it is still there. */
  const script = (body: string) => `
    import pg from 'pg'
    import { createSagaKit } from '${import.meta.dirname}/../../../packages/saga/src/kit.ts'
    const pool = new pg.Pool({ connectionString: '${server.url}' })
    const other = new pg.Client({ connectionString: '${server.url}' })
    await other.connect()
    const end = (pid) => other.query('SELECT pg_terminate_backend($1, 5000)', [pid])
    const turns = async () => { for (let n = 0; n < 20; n += 1) await new Promise((resolve) => setTimeout(resolve, 5)) }
    ${body}
    console.log('still here')
    process.exit(0)`
  const run = (body: string) => new TestProcess(process.execPath, ['--input-type=module', '-e', script(body)])

  test('usual: the client emits an error without a listener, and the process ends', async () => {
    await using one = run(`
      pool.on('error', () => {})
      const client = await pool.connect()
      const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
      await end(rows[0].pid)
      await turns()`)
    expect((await one.exited).code).not.toBe(0)
    expect(one.output).not.toContain('still here')
  })
  test('here: the transaction fails, the process goes on, and the broken client is never lent again', async () => {
    await using one = run(`
      const kit = createSagaKit({ pool })
      const failed = await kit.transaction(async (tx) => {
        const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
        await end(rows[0].pid)
        await turns()
        await tx.query('SELECT 1')
      }).then(() => false, () => true)
      const { rows } = await pool.query('SELECT 7 AS n')
      console.log('failed', failed, 'then', rows[0].n)`)
    expect((await one.exited).code).toBe(0)
    expect(one.output).toContain('failed true then 7')
  })
})
