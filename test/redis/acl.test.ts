import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { joinCluster, outcomeOf } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

test('a cluster lives with exactly the rights that docs/nodes.md lists', async () => {
  const page = readFileSync(new URL('../../docs/nodes.md', import.meta.url), 'utf8')
  const line = /^user fencepost .*$/m.exec(page)?.[0] ?? ''
  expect(line).toContain('-@all')
  await using servers = await startRedisServers(3, { config: ['user default off', line] })
  const addresses = servers.urls.map((url) => ({ url, username: 'fencepost', password: 'secret' }))
  const sidecar = await joinCluster(servers.urls, { addresses })
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  await sidecar.votes(3)
  await sidecar.carryOut('with few rights')
  await servers.kill(0)
  await servers.start(0, { emptied: true })
  await sidecar.votes(2)
  await sidecar.votes(3)
  await servers.kill(1)
  expect(await sidecar.claim('with few rights')).toMatchObject({ outcome: outcomeOf('with few rights') })
  // Released and taken over records, too.
  const claimed = await sidecar.claim('given back')
  if (claimed.kind !== 'granted') throw new Error(claimed.kind)
  expect(await sidecar.leases.renew(claimed.lease)).toMatchObject({ kind: 'renewed' })
  expect(await sidecar.leases.release(claimed.lease)).toEqual({ kind: 'released' })
})
