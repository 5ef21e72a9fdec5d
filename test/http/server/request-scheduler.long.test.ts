/**
 * A burst of requests on a whole sidecar: what else it has to do, such as a scrape, gets its turn. A slice is `request-scheduler.test.ts`.
 *
 * The longest turns of the event loop are measured by their CPU time, which is the same on a busy machine within its noise. A burst that is
 * not spread causes one long turn each time; a single one may be the garbage collector's.
 */
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Pool } from 'undici'
import { expect, test } from 'vitest'
import { startCountingApplication } from '../../support/counting-application.ts'
import { eventually } from '../../support/eventually.ts'
import { startRedisServers } from '../../support/redis-servers.ts'
import { startSidecar } from '../../support/sidecar.ts'

const CONNECTIONS = 1_500

test('fifteen hundred simultaneous requests delay a scrape by less than 100 ms of CPU', async () => {
  await using servers = await startRedisServers(5)
  await using application = await startCountingApplication()
  const file = join(servers.at(0).folder, 'turns.json')
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: application.url,
    NODE_OPTIONS: `--import=${fileURLToPath(new URL('turn-watch.ts', import.meta.url))}`,
    TURN_FILE: file,
  })
  await using stack = new AsyncDisposableStack()
  const pool = new Pool(sidecar.proxy, { connections: CONNECTIONS, pipelining: 1 })
  stack.defer(() => pool.close())
  let sent = 0
  const burst = (size: number) =>
    Promise.all(
      Array.from({ length: size }, async () => {
        sent += 1
        const headers = { 'idempotency-key': `turn-${sent}` }
        const response = await pool.request({ method: 'POST', path: '/payments', headers, body: 'x' })
        await response.body.dump()
      }),
    )
  // Until the code is compiled and the connections are there.
  for (let round = 0; round < 100; round += 1) await burst(24)
  await burst(CONNECTIONS)
  sidecar.process.signal('SIGUSR2')
  for (let round = 0; round < 4; round += 1) await burst(CONNECTIONS)
  // A file written after the bursts: an earlier one may still report the time before them.
  const overWallMs = Date.now()
  await eventually('the longest turns are written', async () => (await stat(file)).mtimeMs > overWallMs)
  const [, second] = JSON.parse(await readFile(file, 'utf8')) as number[]
  expect(second).toBeLessThan(100)
})
