// After stop() and the end of its own pool, a program ends by itself: nothing of the kit keeps the process.
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { startNats } from '../support/nats-server.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { TestProcess } from '../support/processes.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const server = duringTests(() => startPostgres())

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
