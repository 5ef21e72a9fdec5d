/** What the application is asked about an orphan, and how its answer is read. */
import { expect, test } from 'vitest'
import { askOf } from '../../src/app/coordination.ts'
import { systemClock } from '../../src/system/clock.ts'
import { createApplication } from '../../src/upstream/application.ts'
import { startApplication } from '../support/application.ts'

const ORPHAN = {
  recordKey: `dedup:t:e:v:${'0'.repeat(64)}`,
  fingerprint: 'f'.repeat(64),
  token: 1,
  attempt: 1,
}

function applicationAt(origin: string) {
  return createApplication({
    address: { kind: 'http', origin },
    connectTimeoutMs: 500,
    bodyIdleMs: 60_000,
    connectionsMax: 1,
    keepAliveMs: 4_000,
    clock: systemClock,
  })
}

test.each<[status: number, body: string]>([
  [200, `{"outcome":"completed","why":"${'x'.repeat(1_000_000)}"}`],
  [404, 'no such page '.repeat(100_000)],
])('an oversized answer %i counts as unknown, and keeps no connection', async (status, body) => {
  await using server = await startApplication((_request, response) => {
    response.writeHead(status).end(body)
  })
  await using application = applicationAt(server.origin)
  const ask = askOf({ settlePath: '/settle' }, { application, onFailure: () => {} })
  for (let round = 0; round < 3; round += 1) expect(await ask?.(ORPHAN)).toBe('unknown')
  expect(server.seen.map(({ target }) => target)).toEqual(['/settle', '/settle', '/settle'])
})

test('an answer without a length that breaks off counts as unknown, and the round goes on', async () => {
  await using server = await startApplication((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('data: {}\n\n', () => response.destroy())
  })
  await using application = applicationAt(server.origin)
  const ask = askOf({ settlePath: '/settle' }, { application, onFailure: () => {} })
  expect(await ask?.(ORPHAN)).toBe('unknown')
})
