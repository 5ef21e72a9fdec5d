/** Two pods with the same nodes in another order: what they show is about the same servers, so alerts over all pods can fire. */
import { onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { scrape, seriesOf } from '../support/series.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'
import { play } from './promtool.ts'

// Bug: nodes were named by their place in the list, so each of two "nodes" was down for half of the pods, and no alert fired.
test('a dead node is the same series in every pod, and its alert fires', async () => {
  const servers = await startRedisServers(5, { founded: true })
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const lists = [servers.urls, servers.urls.toReversed(), servers.urls, servers.urls.toReversed()]
  const pods = await Promise.all(
    lists.map((urls) => startSidecar({ FENCEPOST_REDIS_NODES: urls.join(','), ...PATIENT })),
  )
  onTestFinished(() => Promise.all(pods.map((pod) => pod[Symbol.asyncDispose]())).then(() => {}))
  await servers.kill(1)
  const shown = (of: string) =>
    eventually(`every pod shows ${of}`, async () => {
      const all = await Promise.all(pods.map(async ({ admin }) => seriesOf(await scrape(admin))))
      return all.every((series) => series.get(of) === 0) ? all : undefined
    })
  const all = await shown(`fencepost_redis_node_up{node="${servers.names[1]}"}`)
  const series = all.flatMap((metrics, pod) =>
    [...metrics]
      .filter(([name]) => /^fencepost_(redis_node_up|build_info)\{/.test(name))
      .map(([name, value]) => ({
        series: name.replace('{', `{namespace="shop",job="fencepost",pod="pod-${pod}",`),
        values: `${value}x20`,
      })),
  )
  await play(series, { 2: [], 15: ['FencepostRedisNodeDown'] })
})
