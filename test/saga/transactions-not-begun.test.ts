// A library that cannot begin the transaction of a consumer: its pool is at its end, or its server out of reach.
import { fromDrizzle, fromKnex, fromPrisma, fromTypeOrm, type InboxTransaction } from '@fencepost/saga'
import { PrismaPg } from '@prisma/adapter-pg'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import knex from 'knex'
import pg from 'pg'
import { DataSource } from 'typeorm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventLog } from '../../packages/saga/src/event-log.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { openPrisma } from '../support/prisma.ts'
import { orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const closing: (() => Promise<unknown>)[] = []
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
})
afterAll(() => Promise.all(closing.map((close) => close())))

const waitMs = 50
const one = () => ({ connectionString: server.url, max: 1, connectionTimeoutMillis: waitMs })

const libraries: Record<string, () => Promise<InboxTransaction>> = {
  Drizzle: async () => {
    const pool = new pg.Pool(one())
    closing.push(() => pool.end())
    const db = drizzle({ client: pool })
    return (work) => db.transaction((own) => work(fromDrizzle(own, sql), own))
  },
  Knex: async () => {
    const db = knex({
      client: 'pg',
      connection: server.url,
      pool: { min: 0, max: 1 },
      acquireConnectionTimeout: waitMs,
      log: { warn: () => {} },
    })
    closing.push(() => db.destroy())
    return (work) => db.transaction((own) => work(fromKnex(own), own))
  },
  Prisma: async () => {
    const prisma = openPrisma(new PrismaPg({ connectionString: server.url, max: 1 }))
    closing.push(() => prisma.$disconnect())
    return (work) => prisma.$transaction((own) => work(fromPrisma(own), own))
  },
  TypeORM: async () => {
    const source = await new DataSource({
      type: 'postgres',
      url: server.url,
      extra: { max: 1 },
    }).initialize()
    closing.push(() => source.destroy())
    // From now on: its first connection may take as long as a busy machine needs.
    const { master } = source.driver as unknown as { master: { options: pg.PoolConfig } }
    master.options.connectionTimeoutMillis = waitMs
    return (work) => source.transaction((manager) => work(fromTypeOrm(manager), manager))
  },
}

// Bug: each try cost an attempt. While a pool was busy for some seconds, or the server had no connection left for it, messages
// became dead letters, and what was behind them waited for a person.
test.each(Object.keys(libraries))('a pool of %s without a free connection costs no attempt', async (name) => {
  const transaction = await libraries[name]!()
  const inbox = new Inbox({
    kit,
    consumerId: name,
    handlers: { T: async () => 1 },
    transaction,
    retryInPlaceMs: 0,
  })
  const receive = () => inbox.receive(orderMessage(name, 'T', name))
  const begun = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  let holds = false
  const hold = (): Promise<unknown> =>
    transaction(async () => {
      holds = true
      begun.resolve()
      await end.promise
    }).catch((error) => (holds ? Promise.reject(error) : hold()))
  const other = hold()
  await begun.promise
  const verdict = await receive()
  const { rows } = await kit.pool.query(
    `SELECT status, attempts FROM ${kit.schema}.inbox WHERE consumer_id = $1`,
    [name],
  )
  end.resolve()
  await other
  expect(verdict).toMatchObject({ kind: 'again' })
  expect(rows).toEqual([{ status: 'waiting', attempts: 0 }])
  await eventually('the message is handled', async () => (await receive()).kind === 'ack')
})

test('a kit without subscribers says that a message waits for the database, and why', () => {
  const lines: string[] = []
  const write = (line: string) => lines.push(line)
  const log = eventLog(kit.clock, { error: write, warn: write })
  for (const event of kit.seenOf('consumed')) log(event)
  expect(lines[0]).toBe(
    'fencepost saga: consumer Drizzle: a message of T waits for the database: timeout exceeded when trying to connect',
  )
})
