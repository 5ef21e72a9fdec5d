import { test } from 'vitest'
import { startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'

// Bug: with Redis' own default nothing was said, until three of five were killed and started with their data, and the cluster stayed closed.
test('a start on nodes that may lack their last second says so, and names the setting', async () => {
  await using servers = await startRedisServers(3, { appendOnly: true, config: ['appendfsync everysec'] })
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: servers.nodesSetting })
  await sidecar.process.line(/"level":"warn".*"nodes":\["127[^\]]*\].*`appendfsync` is not `always`/)
})
