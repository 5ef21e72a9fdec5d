import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { posted } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { scrape, seriesOf } from '../support/series.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

const NODES = 3

test('full nodes replay duplicates and refuse new requests with the reason; free memory alone ends it', async () => {
  await using servers = await startRedisServers(NODES, { maxMemory: '12mb' })
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...between(servers, application),
    ...PATIENT,
    FENCEPOST_NODE_MEMORY_CLAIMS: '0.6',
    // The nodes must answer, not this process.
    FENCEPOST_OUTCOME_CACHE: '0B',
  })
  const send = (key: string) =>
    posted(`${sidecar.proxy}/payments`, { 'Idempotency-Key': `"${key}"` }, '{"amount":1}')
  expect((await send('before')).headers.get('idempotency-status')).toBe('created')

  const operators = servers.urls.map((url) => new Redis(url))
  onTestFinished(() => {
    for (const operator of operators) operator.disconnect()
  })
  const fillers = Array.from({ length: 110 }, (_, n) => `filler:${n}`)
  for (const name of fillers)
    await Promise.all(operators.map((operator) => operator.set(name, 'x'.repeat(64 * 1024))))
  let tries = 0
  await eventually('every node is found full', async () => {
    // It is granted until the nodes have been inspected, and known from then on.
    tries += 1
    const answer = await send(`try ${tries}`)
    return answer.status === 503 && (await answer.text()).includes(`${NODES} more are well`)
  })
  for (let n = 0; n < 10; n += 1) {
    expect(await (await send(`new ${n}`)).json()).toMatchObject({
      code: 'quorum-unavailable',
      detail: expect.stringContaining(
        '0 nodes answered and 2 are required. 3 more are well and have no memory left for new requests',
      ),
    })
    expect((await send('before')).headers.get('idempotency-status')).toBe('replayed')
  }
  const ratio = seriesOf(await scrape(sidecar.admin)).get(
    `fencepost_redis_node_memory_used_ratio{node="${servers.names[0]}"}`,
  )
  expect(ratio).toBeGreaterThan(0.6)
  expect(ratio).toBeLessThan(1)
  expect(sidecar.process.output).toContain(`${servers.names[0]} is full: it is sent no new claims`)

  await Promise.all(operators.map((operator) => operator.del(...fillers)))
  await eventually('new requests are executed again', async () => (await send('after')).status === 201)
  expect(application.of('"before"')).toHaveLength(1)
})
