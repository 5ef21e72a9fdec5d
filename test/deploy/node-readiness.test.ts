/** Readiness of a node means that it votes: the probe of deploy/k8s/nodes and of the chart, on real servers. */
import { expect, test } from 'vitest'
import { foundCluster } from '../support/founded-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { runVotesScript } from '../support/votes-script.ts'

function probe(servers: RedisServers) {
  return runVotesScript(['-p', new URL(servers.urls[0] as string).port])
}

test.each<
  [what: string, happens: (servers: RedisServers) => Promise<unknown>, code: number, said: string | RegExp]
>([
  [
    'a new node is not ready',
    async () => {},
    1,
    'it has no incarnation: it waits, or no sidecar has founded the cluster yet',
  ],
  ['a node that votes is ready', (servers) => foundCluster(servers.urls), 0, ''],
  [
    'a node that came back with its data is not ready before it votes again',
    async (servers) => {
      await foundCluster(servers.urls)
      await servers.kill(0)
      await servers.start(0)
    },
    1,
    'its incarnation is of an earlier run: it waits, or copies what it missed',
  ],
  [
    'a node that came back empty is not ready',
    async (servers) => {
      await foundCluster(servers.urls)
      await servers.kill(0)
      await servers.start(0, { emptied: true })
    },
    1,
    'it has no incarnation: it waits, or no sidecar has founded the cluster yet',
  ],
  ['a node that does not answer is not ready', (servers) => servers.kill(0), 1, /Connection refused/],
])('%s', async (_, happens, code, said) => {
  await using servers = await startRedisServers(1, { appendOnly: true })
  await happens(servers)
  const probed = await probe(servers)
  expect(probed.code).toBe(code)
  if (typeof said === 'string') expect(probed.said).toBe(said)
  else expect(probed.said).toMatch(said)
})
