/** Reservations on real nodes, by real sidecars, from real processes. */
import { glob, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient } from '@fencepost/client'
import { describe, expect, test } from 'vitest'
import { runningClock } from '../support/held-clock.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { TestProcess } from '../support/processes.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { callApi, reserveAt } from '../support/reservation-api.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'

const CALLER = fileURLToPath(new URL('../support/reservation-caller.ts', import.meta.url))

const patient = (nodes: string) => ({ ...PATIENT, FENCEPOST_REDIS_NODES: nodes })

function startCaller(...args: readonly string[]): TestProcess {
  return new TestProcess(process.execPath, [CALLER, ...args], { name: `caller ${args[0]}` })
}

type Storm = {
  readonly counts: Record<string, number>
  readonly winner?: { readonly reservation_id: string; readonly fencing_token: number }
  readonly results: readonly string[]
}

async function stormFrom(urls: readonly string[], value: string, each: number): Promise<readonly Storm[]> {
  return Promise.all(
    urls.map(async (url) => {
      await using caller = startCaller('storm', url, value, String(each))
      const [line] = await caller.line(/^\{"counts".*$/, { withinMs: 60_000 })
      return JSON.parse(line) as Storm
    }),
  )
}

function total(storms: readonly Storm[]): Record<string, number> {
  const sum: Record<string, number> = {}
  for (const { counts } of storms)
    for (const [what, count] of Object.entries(counts)) sum[what] = (sum[what] ?? 0) + count
  return sum
}

test('200 callers in 4 processes: one gets it, the rest conflict; after completion all get the result', async () => {
  await using servers = await startRedisServers(5, { founded: true })
  await using first = await startSidecar(patient(servers.nodesSetting))
  await using second = await startSidecar(patient(servers.nodesSetting))
  const urls = [first.api, second.api, first.api, second.api]
  const storms = await stormFrom(urls, 'v', 50)
  expect(total(storms)).toEqual({ '201 SUCCESS': 1, '409 CONFLICT': 199 })

  const winner = storms.flatMap((storm) => storm.winner ?? [])[0]!
  // Possibly through another sidecar than the one that granted it.
  const done = { fencing_token: winner.fencing_token, result: { rows: 1 } }
  expect(await callApi(second.api, `/v1/reservations/${winner.reservation_id}/complete`, done)).toMatchObject(
    {
      status: 200,
    },
  )
  const after = await stormFrom(urls, 'v', 50)
  expect(total(after)).toEqual({ '409 DUPLICATE': 200 })
  expect(new Set(after.flatMap(({ results }) => results))).toEqual(new Set(['{"rows":1}']))
})

test('the sidecar is killed between reserve and complete: another one, and the restarted one, serve the same id', async () => {
  await using servers = await startRedisServers(5, { founded: true })
  const settings = patient(servers.nodesSetting)
  await using killed = await startSidecar(settings)
  await using other = await startSidecar(settings)
  const reserved = await reserveAt(killed.api, { session_id: 's', reserved_values: ['a', 'b'] })
  await killed.process.end({ signal: 'SIGKILL' })
  const token = { fencing_token: reserved.token }
  expect(await callApi(other.api, `/v1/reservations/${reserved.id}/extend`, token)).toMatchObject({
    status: 200,
  })
  await using restarted = await startSidecar(settings)
  // A session that does not know whether its first attempt got through reserves at the new sidecar.
  expect((await reserveAt(restarted.api, { session_id: 's', reserved_values: ['a', 'b'] })).token).toBe(
    reserved.token,
  )
  expect(
    await callApi(restarted.api, `/v1/reservations/${reserved.id}/complete`, { ...token, result: 1 }),
  ).toMatchObject({ status: 200 })
  expect(await callApi(other.api, '/v1/reservations?value=b')).toMatchObject({
    body: { state: 'COMPLETED', result: 1 },
  })
})

test('a secret from a file signs ids that only sidecars with the same file know', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-secret-'))
  try {
    await writeFile(join(folder, 'old'), 'o'.repeat(32))
    await writeFile(join(folder, 'new'), `${'n'.repeat(32)}\n${'o'.repeat(32)}\n`)
    await using servers = await startRedisServers(3, { founded: true })
    const settings = (name: string) => ({
      ...patient(servers.nodesSetting),
      FENCEPOST_RESERVATION_SECRET_FILE: join(folder, name),
    })
    await using before = await startSidecar(settings('old'))
    await using after = await startSidecar(settings('new'))
    const old = await reserveAt(before.api, { session_id: 's', reserved_value: 'v' })
    expect(await callApi(after.api, `/v1/reservations/${old.id}`)).toMatchObject({ status: 200 })
    const young = await reserveAt(after.api, { session_id: 's', reserved_value: 'w' })
    expect(await callApi(before.api, `/v1/reservations/${young.id}`)).toMatchObject({ status: 410 })
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('with a key ring no node shows a result in clear text, and another sidecar with the ring does', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-ring-'))
  try {
    const line = (name: string, byte: number) => `${name} ${Buffer.alloc(32, byte).toString('base64')}\n`
    await writeFile(join(folder, 'old'), line('old', 1))
    await writeFile(join(folder, 'rotated'), line('new', 2) + line('old', 1))
    await using servers = await startRedisServers(3, { appendOnly: true, founded: true })
    const settings = (ring: string) => ({
      ...patient(servers.nodesSetting),
      FENCEPOST_KEY_RING_FILE: join(folder, ring),
    })
    await using first = await startSidecar(settings('old'))
    const held = await reserveAt(first.api, { session_id: 's', reserved_value: 'v' })
    const done = { fencing_token: held.token, result: 'a very secret result' }
    await callApi(first.api, `/v1/reservations/${held.id}/complete`, done)
    await using second = await startSidecar(settings('rotated'))
    expect(await callApi(second.api, '/v1/reservations?value=v')).toMatchObject({
      body: { state: 'COMPLETED', result: 'a very secret result' },
    })
    for (const index of [0, 1, 2]) {
      const { folder: data } = servers.at(index)
      const written: Buffer[] = []
      for await (const file of glob('**/*.aof', { cwd: data })) written.push(await readFile(join(data, file)))
      expect(written.length).toBeGreaterThan(0)
      expect(Buffer.concat(written).includes('secret result')).toBe(false)
      expect(Buffer.concat(written).includes('dedup:default')).toBe(true)
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})

describe('a worker suspended beyond its lease', () => {
  test('its completion is fenced, its write changes no row, and the other outcome stands', async () => {
    await using servers = await startRedisServers(5, { founded: true })
    await using postgres = await startPostgres()
    const pool = postgres.pool()
    await pool.query(
      'CREATE TABLE account (id int PRIMARY KEY, balance int, last_fencing_token bigint NOT NULL DEFAULT 0)',
    )
    await pool.query('INSERT INTO account VALUES (1, 100)')
    await using sidecar = await startSidecar(patient(servers.nodesSetting))
    await using worker = startCaller('fenced', sidecar.api, 'v', postgres.url)
    const [line] = await worker.line(/^\{"token".*$/)
    const first = JSON.parse(line) as { token: number; attempt: number }
    worker.signal('SIGSTOP')

    const client = createClient({ url: sidecar.api })
    const second = await client.reserve('v', { waitMs: 10_000 })
    expect(second.attempt).toBeGreaterThan(first.attempt)
    expect(second.fencingToken).toBeGreaterThan(first.token)
    const write = await pool.query(
      'UPDATE account SET balance = balance - 1, last_fencing_token = $1 WHERE id = 1 AND last_fencing_token <= $1',
      [second.fencingToken],
    )
    expect(write.rowCount).toBe(1)
    await second.complete('of the second')

    worker.signal('SIGCONT')
    worker.signal('SIGUSR2')
    const [end] = await worker.line(/^\{"rowCount".*$/)
    expect(JSON.parse(end)).toEqual({
      rowCount: 0,
      completed: '410 FencedError fenced',
      aborted: true,
    })
    expect((await pool.query('SELECT balance, last_fencing_token FROM account')).rows).toEqual([
      { balance: 99, last_fencing_token: String(second.fencingToken) },
    ])
    expect(await client.read('v')).toMatchObject({ state: 'COMPLETED', result: 'of the second' })
  })
})

test('when a client’s nodes are all gone, its signal fires before the lease has ended on them', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await using sidecar = await startSidecar(patient(servers.nodesSetting))
  const client = createClient({ url: sidecar.api })
  const held = await client.reserve('v', { leaseMs: 2_000 })
  for (const index of [0, 1, 2]) servers.pause(index)
  using clock = runningClock()
  const beganMs = clock.monoMs()
  await new Promise((resolve) => held.signal.addEventListener('abort', resolve))
  // The nodes were suspended since, so no lease was renewed: it ends 2 s after its last renewal.
  expect(clock.monoMs() - beganMs).toBeLessThan(2_000)
  for (const index of [0, 1, 2]) servers.resume(index)
})
