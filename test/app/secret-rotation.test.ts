/** The key ring and the secret of reservation ids change while sidecars run, one sidecar after the other, as in docs/operations/deploy.md. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { callApi, reserveAt } from '../support/reservation-api.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'

/** A sidecar with a file of its own for a setting. */
async function start(servers: RedisServers, setting: string, lines: readonly string[], upstream?: string) {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-rotation-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'lines')
  writeFileSync(file, lines.join('\n'))
  const told: string[] = []
  const sidecar = await startSidecar(
    {
      ...PATIENT,
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      FENCEPOST_OUTCOME_CACHE: '0B',
      [setting]: file,
      ...(upstream === undefined ? {} : { FENCEPOST_UPSTREAM: upstream }),
    },
    { onOutput: (text) => void told.push(text) },
  )
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  return {
    sidecar,
    post: async (key: string) => {
      const headers = { 'idempotency-key': key }
      const answer = await fetch(`${sidecar.proxy}/x`, { method: 'POST', headers, body: '{}' })
      return { status: answer.status, replayed: answer.headers.has('idempotent-replayed') }
    },
    /** Resolves when the log says what came of it. */
    change: async (to: readonly string[], says: string) => {
      const before = told.length
      writeFileSync(file, to.join('\n'))
      await eventually(`the log says: ${says}`, async () => told.slice(before).join('').includes(says))
    },
  }
}

const IN_FORCE = 'what it holds is in force'
const REFUSED = 'what was before stays in force'

// Bug: both files were read at the start alone.
test('a key ring changes in three steps: duplicates are replayed at each, and the first key writes', async () => {
  const [old, young] = ['old', 'young'].map(
    (name, index) => `${name} ${Buffer.alloc(32, index).toString('base64')}`,
  ) as [string, string]
  await using servers = await startRedisServers(3, { founded: true })
  await using application = await startCountingApplication()
  const both = await Promise.all(
    [1, 2].map(() => start(servers, 'FENCEPOST_KEY_RING_FILE', [old], application.url)),
  )
  const [one] = both as [(typeof both)[0], (typeof both)[0]]
  const node = clientOf(servers.at(0).url)
  const isWrittenWith = async (name: string) => {
    const keys = await node.keys('dedup:default:*')
    const records = await Promise.all(keys.map((key) => node.getBuffer(key)))
    return records.some((record) => record?.includes(Buffer.from([2, name.length, ...Buffer.from(name)])))
  }
  const replayedAt = async (key: string, where: typeof both) => {
    for (const { post } of where) expect(await post(key)).toEqual({ status: 201, replayed: true })
    expect(application.of(key).length).toBe(1)
  }

  expect(await one.post('first')).toEqual({ status: 201, replayed: false })
  await replayedAt('first', both)
  for (const { change } of both) await change([old, young], IN_FORCE)
  await one.change([young, old], IN_FORCE)
  expect(await one.post('second')).toEqual({ status: 201, replayed: false })
  await replayedAt('first', both)
  await replayedAt('second', both)
  for (const name of ['old', 'young'])
    await eventually(`the node has an outcome that ${name} encrypts`, () => isWrittenWith(name))

  await one.change([young, 'no key'], REFUSED)
  await replayedAt('first', [one])
  await one.change([young], IN_FORCE)
  expect(await one.post('first')).toEqual({ status: 502, replayed: false })
  await replayedAt('second', both)
})

test('the secret of reservation ids changes in three steps: every id is known at each', async () => {
  const [old, young] = ['o'.repeat(32), 'y'.repeat(32)]
  await using servers = await startRedisServers(3, { founded: true })
  const [one, other] = await Promise.all([
    start(servers, 'FENCEPOST_RESERVATION_SECRET_FILE', [old]),
    start(servers, 'FENCEPOST_RESERVATION_SECRET_FILE', [old]),
  ])
  const known = async (id: string) =>
    await Promise.all(
      [one, other].map(async ({ sidecar }) => (await callApi(sidecar.api, `/v1/reservations/${id}`)).status),
    )
  const first = await reserveAt(one.sidecar.api, { session_id: 's', reserved_value: 'v' })
  for (const { change } of [one, other]) await change([old, young], IN_FORCE)
  await one.change([young, old], IN_FORCE)
  const second = await reserveAt(one.sidecar.api, { session_id: 's', reserved_value: 'w' })
  expect([await known(first.id), await known(second.id)]).toEqual([
    [200, 200],
    [200, 200],
  ])

  await one.change([young, 'too short'], REFUSED)
  expect(await known(first.id)).toEqual([200, 200])
  for (const { change } of [one, other]) await change([young], IN_FORCE)
  expect([await known(first.id), await known(second.id)]).toEqual([
    [410, 410],
    [200, 200],
  ])
})
