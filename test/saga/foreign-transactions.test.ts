// The kit inside the transactions of other libraries, on the real libraries: one connection, one commit.

import {
  createSagaRunner,
  defineSaga,
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPrisma,
  fromTypeOrm,
  IdempotencyKeyReuseError,
  NotInTransactionError,
  publish,
  type Tx,
  withIdempotency,
} from '@fencepost/saga'
import { PrismaPg } from '@prisma/adapter-pg'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import knex from 'knex'
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely'
import { DataSource } from 'typeorm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { openPrisma } from '../support/prisma.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'

let server: PostgresServer
let kit: TestKit
const closing: (() => Promise<unknown>)[] = []

type Library = {
  /** Runs the work in the library's own transaction, which rolls back if the work fails. */
  readonly transaction: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>
  /** The library's handle outside a transaction. */
  readonly outside: () => Tx
}
const libraries: Record<string, () => Library> = {
  pg: () => {
    const pool = server.pool()
    return {
      transaction: async (work) => {
        const client = await pool.connect()
        try {
          await client.query('BEGIN')
          const result = await work(client)
          await client.query('COMMIT')
          return result
        } catch (error) {
          await client.query('ROLLBACK')
          throw error
        } finally {
          client.release()
        }
      },
      outside: () => pool as never,
    }
  },
  Drizzle: () => {
    const db = drizzle({ client: server.pool() })
    return {
      transaction: (work) => db.transaction((tx) => work(fromDrizzle(tx, sql))),
      outside: () => fromDrizzle(db, sql),
    }
  },
  Kysely: () => {
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: server.pool() }) })
    return {
      transaction: (work) => db.transaction().execute((trx) => work(fromKysely(trx, CompiledQuery))),
      outside: () => fromKysely(db, CompiledQuery),
    }
  },
  Knex: () => {
    const db = knex({ client: 'pg', connection: server.url })
    closing.push(() => db.destroy())
    return {
      transaction: (work) => db.transaction((trx) => work(fromKnex(trx))),
      outside: () => fromKnex(db),
    }
  },
  Prisma: () => {
    const prisma = openPrisma(new PrismaPg({ connectionString: server.url }))
    closing.push(() => prisma.$disconnect())
    return {
      transaction: (work) => prisma.$transaction((tx) => work(fromPrisma(tx))),
      outside: () => fromPrisma(prisma),
    }
  },
  TypeORM: () => {
    const source = new DataSource({ type: 'postgres', url: server.url })
    const ready = source.initialize()
    closing.push(() => source.destroy())
    return {
      transaction: async (work) => (await ready).transaction((manager) => work(fromTypeOrm(manager))),
      outside: () => fromTypeOrm({ queryRunner: source.createQueryRunner() }),
    }
  },
}

beforeAll(async () => {
  server = await startPostgres()
  kit = await testKit(server)
  await kit.pool.query('CREATE TABLE orders (id text PRIMARY KEY, note text)')
})
afterAll(async () => {
  await Promise.all(closing.map((close) => close()))
  await server[Symbol.asyncDispose]()
})

describe.each(Object.keys(libraries))('%s', (name) => {
  let library: Library
  beforeAll(() => {
    library = libraries[name]!()
  })

  const place = (key: string, request: unknown = { key }) =>
    library.transaction((tx) =>
      withIdempotency(kit, { scope: name, key, request, tx }, async (inner) => {
        // A question mark, and a parameter that stands twice.
        await inner.query(`INSERT INTO orders (id, note) VALUES ($1, $1 || '?' || $2)`, [
          `${name}/${key}`,
          'note',
        ])
        await publish(kit, inner, {
          aggregateType: 'order',
          aggregateId: key,
          type: `${name}Placed`,
          payload: { key },
        })
        const answer = await inner.query<{ note: string }>('SELECT note FROM orders WHERE id = $1', [
          `${name}/${key}`,
        ])
        expect(answer.rowCount).toBe(1)
        return answer.rows[0]
      }),
    )
  const rowsOf = async (key: string) => [
    (await kit.pool.query('SELECT 1 FROM orders WHERE id = $1', [`${name}/${key}`])).rowCount,
    await countOf(kit, 'outbox WHERE type = $1 AND aggregate_id = $2', [`${name}Placed`, key]),
    await countOf(kit, 'idempotency_keys WHERE scope = $1 AND key = $2', [name, key]),
  ]

  test('row, event and key are committed together, and the duplicate gets the result', async () => {
    const result = { note: `${name}/one?note` }
    expect(await place('one')).toEqual({ replayed: false, result })
    expect(await place('one')).toEqual({ replayed: true, result })
    await expect(place('one', { another: true })).rejects.toBeInstanceOf(IdempotencyKeyReuseError)
    expect(await rowsOf('one')).toEqual([1, 1, 1])
  })

  test('a rollback of the library takes all of it back', async () => {
    const failing = library.transaction(async (tx) => {
      await withIdempotency(kit, { scope: name, key: 'two', request: {}, tx }, async (inner) => {
        await inner.query('INSERT INTO orders VALUES ($1)', [`${name}/two`])
        await publish(kit, inner, {
          aggregateType: 'order',
          aggregateId: 'two',
          type: `${name}Placed`,
          payload: {},
        })
      })
      throw new Error('rolled back')
    })
    await expect(failing).rejects.toThrow('rolled back')
    expect(await rowsOf('two')).toEqual([0, 0, 0])
  })

  test('joined work that fails is undone alone', async () => {
    await library.transaction(async (tx) => {
      await tx.query('INSERT INTO orders VALUES ($1)', [`${name}/kept`])
      const failing = withIdempotency(kit, { scope: name, key: 'three', request: {}, tx }, (inner) =>
        inner.query('INSERT INTO orders VALUES ($1)', [`${name}/kept`]),
      )
      await expect(failing).rejects.toThrow()
    })
    expect([await rowsOf('kept'), await rowsOf('three')]).toEqual([
      [1, 0, 0],
      [0, 0, 0],
    ])
  })

  test('a saga begins with the transaction, once, and its id with another input is an error', async () => {
    const order = defineSaga<{ n: number }>(`order of ${name}`).step({ name: 'pay', effect: async () => 1 })
    const runner = createSagaRunner({ kit, definitions: [order] })
    const begin = (n: number) =>
      library.transaction((tx) => runner.begin(tx, order, { sagaId: `${name}/saga`, input: { n } }))
    expect([await begin(1), await begin(1)]).toEqual([true, false])
    await expect(begin(2)).rejects.toBeInstanceOf(IdempotencyKeyReuseError)
  })

  test('publish outside a transaction is refused, and writes nothing', async () => {
    const event = { aggregateType: 'order', aggregateId: 'lone', type: `${name}Placed`, payload: {} }
    await expect(publish(kit, library.outside(), event)).rejects.toBeInstanceOf(NotInTransactionError)
    expect(await rowsOf('lone')).toEqual([0, 0, 0])
  })
})
