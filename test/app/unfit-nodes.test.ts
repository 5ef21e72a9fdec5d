import { expect, test } from 'vitest'
import { serve } from '../../src/cli/serve.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { answering } from '../support/stand-in.ts'

/** Starts the sidecar as its command does; it must return at once, because it refuses to run. */
async function startOn(nodes: readonly string[]) {
  const { io, stderr } = bufferedIo({
    FENCEPOST_REDIS_NODES: nodes.join(','),
    FENCEPOST_PROXY_LISTEN: 'off',
    FENCEPOST_API_LISTEN: 'off',
    FENCEPOST_ADMIN_LISTEN: 'off',
    FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
  })
  return { exitCode: await serve([], io), stderr: stderr() }
}

test('serve refuses two URLs that lead to one server, however they are written, and says which', async () => {
  await using servers = await startRedisServers(3)
  const [first = '', second = ''] = servers.urls
  const refused = await startOn([first, second, first.replace('127.0.0.1', 'localhost')])
  expect(refused.exitCode).toBe(78)
  expect(refused.stderr).toMatch(/:\d+: it is the same server as (127\.0\.0\.1|localhost):\d+/)
})

test('serve refuses a replica and a node that evicts, each with the reason', async () => {
  await using servers = await startRedisServers(3, {
    config: (index) =>
      index === 1 ? ['maxmemory-policy volatile-lru'] : index === 2 ? ['replicaof 127.0.0.1 1'] : [],
  })
  const refused = await startOn(servers.urls)
  expect(refused.exitCode).toBe(78)
  expect(refused.stderr).toContain(`${servers.names[1]}: its maxmemory-policy is volatile-lru`)
  expect(refused.stderr).toContain(`${servers.names[2]}: its role is slave`)
})

// Bug: it was down, with the words of the server alone, and the sidecar started and dialled on.
test('serve refuses a server that does not know INFO, and says what to use', async () => {
  await using servers = await startRedisServers(2)
  const refused = await startOn([...servers.urls, await answering("-ERR unknown command 'info'\r\n")])
  expect(refused.exitCode).toBe(78)
  expect(refused.stderr).toMatch(
    /:\d+: it does not answer INFO as Redis does \(ERR unknown command .*\): .* use Redis 7\.0 or later, or Valkey, by its own address/,
  )
})

test('serve refuses an even number of nodes', async () => {
  const refused = await startOn([1, 2, 3, 4].map((port) => `redis://127.0.0.1:${port}`))
  expect(refused.exitCode).toBe(78)
  expect(refused.stderr).toContain('an odd number')
})
