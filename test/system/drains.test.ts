/** A cluster with the default settings while its machines are drained. */

import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { HEARTBEAT_KEY } from '../../src/redis/keys.ts'
import { eventually } from '../support/eventually.ts'
import { postedJson } from '../support/post.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

async function states({ admin }: Sidecar): Promise<readonly string[]> {
  const { nodes } = (await (await fetch(`${admin}/readyz`)).json()) as { nodes: readonly { state: string }[] }
  return nodes.map(({ state }) => state)
}

async function allVote(sidecar: Sidecar): Promise<void> {
  await eventually(
    'all nodes vote',
    async () => (await states(sidecar)).every((state) => state === 'voting'),
    { withinMs: 30_000 },
  )
}

async function noted({ urls }: RedisServers): Promise<void> {
  const clients = urls.map((url) => new Redis(url))
  try {
    await eventually('each node knows the heartbeats of the others', async () => {
      const heartbeats = await Promise.all(clients.map((client) => client.hgetall(HEARTBEAT_KEY)))
      return heartbeats.every(
        (fields) => Object.keys(fields).filter((name) => name.startsWith('of:')).length === 4,
      )
    })
  } finally {
    for (const client of clients) client.disconnect()
  }
}

async function call(sidecar: Sidecar, path: string, body: object) {
  const response = await postedJson(`${sidecar.api}${path}`, body)
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const reserve = (sidecar: Sidecar, value: string, session: string) =>
  call(sidecar, '/v1/reservations', { session_id: session, reserved_value: value })

test('all five nodes are drained, some at once, and a recorded value is never reserved again', {
  timeout: 120_000,
}, async () => {
  const servers = await startRedisServers(5, { appendOnly: true })
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const settings = { ...PATIENT, FENCEPOST_REDIS_NODES: servers.nodesSetting }
  const sidecar = await startSidecar(settings)
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  const other = await startSidecar(settings)
  onTestFinished(() => other[Symbol.asyncDispose]())
  await allVote(sidecar)
  await noted(servers)
  const values: string[] = []
  const record = async (value: string) => {
    const { status, body } = await reserve(sidecar, value, 'first')
    expect(status, JSON.stringify(body)).toBe(201)
    const done = { fencing_token: body.fencing_token, result: value }
    expect((await call(sidecar, `/v1/reservations/${body.reservation_id}/complete`, done)).status).toBe(200)
    values.push(value)
  }
  await record('before')
  // The next node goes without waiting for the last one to vote.
  for (const index of [0, 1, 2, 3, 4]) {
    await servers.stop(index)
    await servers.start(index)
  }
  await allVote(sidecar)
  await allVote(other)
  await record('between')
  await Promise.all([0, 1, 2].map((index) => servers.kill(index)))
  await Promise.all([0, 1, 2].map((index) => servers.start(index)))
  await allVote(sidecar)
  await allVote(other)
  for (const value of values) {
    const { status, body } = await reserve(other, value, 'second')
    expect({ status, body }).toMatchObject({ status: 409, body: { code: 'reservation-duplicate' } })
  }
})
