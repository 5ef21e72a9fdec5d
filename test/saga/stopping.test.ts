// After stop() and the end of its own pool, a program ends by itself: nothing of the kit keeps the process.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startNats } from '../support/nats-server.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { TestProcess } from '../support/processes.ts'
import { startRedisServers } from '../support/redis-servers.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server[Symbol.asyncDispose]())

const stops = async (kind: string, broker = '') => {
  await using program = new TestProcess(
    process.execPath,
    ['test/support/stopping-program.ts', kind, broker],
    {
      env: { DATABASE_URL: server.url },
    },
  )
  expect(await program.exited, program.output).toEqual({ code: 0, signal: null })
  expect(program.output).toContain('stopped')
}

test.each(['mailbox', 'webhook', 'runner'])('%s', (kind) => stops(kind))

test('nats', async () => {
  await using nats = await startNats()
  await stops('nats', nats.url)
})

test('redis-streams', async () => {
  await using servers = await startRedisServers(1, { appendOnly: true })
  await stops('redis-streams', servers.urls[0])
})
