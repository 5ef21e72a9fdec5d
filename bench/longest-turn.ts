/**
 * How long a burst of requests delays other work of the sidecar, such as a scrape: the longest turns of its event loop,
 * by their CPU time, while 1,500 connections send one request each at the same moment, four times.
 *
 *     npm run bench -- longest-turn
 *
 * The result is the same on a busy machine as on a quiet one, within its noise. Ends with 1 where two turns took 100 ms
 * or more: a burst that is not spread causes one each time, and a single one may be the garbage collector's.
 */
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Pool } from 'undici'
import { startCountingApplication } from '../test/support/counting-application.ts'
import { eventually } from '../test/support/eventually.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { startSidecar } from '../test/support/sidecar.ts'

const CONNECTIONS = 1_500
const BURSTS = 4
const WITHIN_MS = 100

await using servers = await startRedisServers(5)
await using application = await startCountingApplication()
const file = join(servers.at(0).folder, 'turns.json')
await using sidecar = await startSidecar({
  FENCEPOST_REDIS_NODES: servers.nodesSetting,
  FENCEPOST_UPSTREAM: application.url,
  NODE_OPTIONS: `--import=${fileURLToPath(new URL('support/turn-watch.ts', import.meta.url))}`,
  TURN_FILE: file,
})
const pool = new Pool(sidecar.proxy, { connections: CONNECTIONS, pipelining: 1 })
let sent = 0
async function request(): Promise<void> {
  sent += 1
  const headers = { 'idempotency-key': `turn-${sent}` }
  const response = await pool.request({ method: 'POST', path: '/payments', headers, body: 'x' })
  await response.body.dump()
}
// Until the code is compiled and the connections are there.
for (let i = 0; i < 100; i += 1) await Promise.all(Array.from({ length: 24 }, request))
await Promise.all(Array.from({ length: CONNECTIONS }, request))
sidecar.process.signal('SIGUSR2')
for (let burst = 0; burst < BURSTS; burst += 1)
  await Promise.all(Array.from({ length: CONNECTIONS }, request))
// A file written after the bursts: an earlier one may still report the time before them.
const overWallMs = Date.now()
await eventually('the longest turns are written', async () => (await stat(file)).mtimeMs > overWallMs)
const turnsMs = JSON.parse(await readFile(file, 'utf8')) as number[]
console.log(`longest turns: ${turnsMs.map((ms) => ms.toFixed(0)).join(' ')} ms of CPU`)
await pool.close()
if ((turnsMs[1] ?? Number.POSITIVE_INFINITY) >= WITHIN_MS) {
  console.error(`turns took ${WITHIN_MS} ms of CPU or more`)
  process.exitCode = 1
}
