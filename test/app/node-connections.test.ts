/** docs/operations/capacity.md plans with one connection from each sidecar to each node: so it is, also under load. */
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { postedJson } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'

test('each sidecar has one connection to each node, however many calls are under way', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  const env = { FENCEPOST_REDIS_NODES: servers.nodesSetting, FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0' }
  await using first = await startSidecar(env)
  await using second = await startSidecar(env)
  const reserve = (api: string, value: string) =>
    postedJson(`${api}/v1/reservations`, { session_id: 's', reserved_value: value })
  const calls = Array.from({ length: 40 }, (_, n) => reserve(n % 2 === 0 ? first.api : second.api, `v${n}`))
  const counts = await Promise.all(
    servers.urls.map(async (url) => {
      const probe = new Redis(url)
      try {
        const list = (await probe.client('LIST')) as string
        return list.trim().split('\n').length - 1
      } finally {
        probe.disconnect()
      }
    }),
  )
  expect(counts).toEqual([2, 2, 2])
  for (const answer of await Promise.all(calls)) expect(answer.status).toBe(201)
})
