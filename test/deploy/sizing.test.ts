/** The memory of a record in docs/operations/deploy.md, measured on a real server. */
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'

/** Headers and digits of times differ by a few bytes, and allocators round up. */
const OFF_BY_MAX = 0.15
/** Where a record says what it is: `D` where it has an outcome. */
const STATE_AT = 1

/** As the page says. */
const told = [
  { bodyBytes: 0, kilobytes: 0.6 },
  { bodyBytes: 100, kilobytes: 0.7 },
  { bodyBytes: 1_000, kilobytes: 1.8 },
  { bodyBytes: 10_000, kilobytes: 12.5 },
]

/**
 * Of the only record, with its key and the server's overhead. The client is answered when a majority has it, and this
 * node may not have it yet.
 */
async function recordBytes(redis: Redis): Promise<number> {
  const key = await eventually('the outcome on this node', async () => {
    const [only = '', ...others] = await redis.keys('dedup:default:*')
    expect(others).toEqual([])
    return (await redis.get(only))?.[STATE_AT] === 'D' && only
  })
  const bytes = Number(await redis.memory('USAGE', key))
  await redis.del(key)
  return bytes
}

test('each row is near what a node needs', async () => {
  let bodyBytes = 0
  const application = createServer((request, response) => {
    request.resume().on('end', () => {
      const body = 'x'.repeat(bodyBytes)
      response.writeHead(201, { 'Content-Type': 'application/json', Location: '/payments/1' }).end(body)
    })
  })
  const { port } = await listening(application)
  await using servers = await startRedisServers(3)
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: `http://127.0.0.1:${port}`,
    ...PATIENT,
  })
  const redis = new Redis(servers.urls[0]!)
  const found: number[] = []
  for (const row of told) {
    bodyBytes = row.bodyBytes
    const headers = { 'Idempotency-Key': randomUUID() }
    const answer = await fetch(`${sidecar.proxy}/payments`, { method: 'POST', headers, body: '{}' })
    expect(answer.status).toBe(201)
    await answer.arrayBuffer()
    found.push((await recordBytes(redis)) / 1_000)
  }
  redis.disconnect()
  application.close()
  application.closeAllConnections()
  console.log(JSON.stringify(found))
  for (const [index, row] of told.entries()) {
    expect(found[index]!, `${row.bodyBytes} bytes`).toBeGreaterThan(row.kilobytes * (1 - OFF_BY_MAX))
    expect(found[index]!, `${row.bodyBytes} bytes`).toBeLessThan(row.kilobytes * (1 + OFF_BY_MAX))
  }
})
