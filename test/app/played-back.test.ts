/**
 * Records that somebody kept and writes back, on real nodes: after its end no outcome answers, with a key ring and without,
 * and what a single node shows is no outcome of a request that the others have never heard of.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type CountingApplication, startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

describe.each([['with a key ring'], ['without one']])('%s', (how) => {
  const slug = how.replaceAll(' ', '-')
  let servers: RedisServers
  let application: CountingApplication
  let sidecar: Sidecar
  let folder: string
  let clients: readonly Redis[]
  let log = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'fencepost-played-back-'))
    const [ring, config] = [join(folder, 'ring'), join(folder, 'fencepost.yaml')]
    await writeFile(ring, `k1 ${randomBytes(32).toString('base64')}\n`, { mode: 0o600 })
    await writeFile(
      config,
      'routes:\n  - name: brief\n    match: { methods: [POST], paths: ["/brief"] }\n    mode: header\n    lease: 5s\n    retention: 5s\n',
    )
    servers = await startRedisServers(3, { founded: true })
    application = await startCountingApplication()
    sidecar = await startSidecar(
      {
        ...between(servers, application),
        FENCEPOST_CONFIG: config,
        FENCEPOST_OUTCOME_CACHE: '0B',
        FENCEPOST_CLIENT_RETRY_WINDOW: '0s',
        FENCEPOST_CLOCK_STEP: '0s',
        ...PATIENT,
        FENCEPOST_NODE_DEADLINE: '250ms',
        FENCEPOST_CLAIM_BUDGET: '1500ms',
        ...(how === 'with a key ring' ? { FENCEPOST_KEY_RING_FILE: ring } : {}),
      },
      {
        onOutput: (text) => {
          log += text
        },
      },
    )
    clients = servers.urls.map((url) => new Redis(url))
  })

  afterAll(async () => {
    for (const client of clients ?? []) client.disconnect()
    await sidecar?.[Symbol.asyncDispose]()
    await application?.[Symbol.asyncDispose]()
    await servers?.[Symbol.asyncDispose]()
    await rm(folder, { recursive: true, force: true })
  })

  const post = (path: string, key: string) =>
    fetch(`${sidecar.proxy}${path}`, { method: 'POST', headers: { 'Idempotency-Key': key }, body: '{}' })
  const recordOf = async (client: Redis) => (await client.keys('dedup:default:*'))[0]

  /** What every node has of a request that was just executed. */
  async function kept(path: string, key: string) {
    expect((await post(path, key)).status).toBe(201)
    return eventually('every node has the outcome', async () => {
      const name = (await recordOf(clients[0]!)) ?? ''
      const records = await Promise.all(clients.map((client) => client.getBuffer(name)))
      return records.every((record) => record !== null && record.length > 166) && { name, bytes: records[0]! }
    })
  }

  const gone = (name: string) =>
    eventually(
      'no node has it any more',
      async () =>
        (await Promise.all(clients.map((client) => client.exists(name)))).every((count) => count === 0),
      { withinMs: 20_000 },
    )

  test('one node alone that shows an outcome of before answers nobody: the order is executed', async () => {
    const { name, bytes } = await kept('/brief', `alone-${slug}`)
    for (const client of clients) await client.del(name)
    await clients[2]!.set(name, bytes, 'PX', 600_000)
    for (let time = 0; time < 3; time += 1) expect((await post('/brief', `alone-${slug}`)).status).toBe(201)
    expect(application.of(`alone-${slug}`).length).toBe(2)
    for (const client of clients) await client.del(name)
  })

  test('where every node shows it after its end it answers nobody, and each of them is named', async () => {
    const { name, bytes } = await kept('/brief', `over-${slug}`)
    await gone(name)
    for (const client of clients) await client.set(name, bytes, 'PX', 600_000)
    await eventually('it is refused', async () => (await post('/brief', `over-${slug}`)).status === 503, {
      withinMs: 20_000,
    })
    expect(application.of(`over-${slug}`).length).toBe(1)
    const named = log.matchAll(
      /"event":"outcome_damaged".*"node":"([^"]*)".*it shows an outcome that was over/g,
    )
    expect(new Set([...named].map(([, node]) => node)).size).toBe(3)
    for (const client of clients.slice(1)) await client.del(name)
    expect((await post('/brief', `over-${slug}`)).headers.get('Idempotency-Status')).toBe('created')
    for (const client of clients) await client.del(name)
  })
})
