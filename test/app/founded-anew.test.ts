/** Whole sidecars as processes: one suspended while all nodes came back empty, and one that started meanwhile. */
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'

test('a sidecar suspended while its nodes were founded anew serves no request; log, readiness, metrics say why', {
  timeout: 90_000,
}, async () => {
  await using servers = await startRedisServers(3)
  const env = { FENCEPOST_REDIS_NODES: servers.nodesSetting, FENCEPOST_REDIS_CONNECT_TIMEOUT: '500ms' }
  await using frozen = await startSidecar(env)
  frozen.process.signal('SIGSTOP')
  for (const index of [0, 1, 2]) {
    await servers.kill(index)
    await servers.start(index, { emptied: true })
  }
  await using fresh = await startSidecar(env)
  await fresh.process.line(/a brand-new cluster was founded/)
  frozen.process.signal('SIGCONT')

  const [line] = await frozen.process.line(/^.*the nodes were founded anew beside this sidecar.*$/)
  expect(JSON.parse(line)).toMatchObject({ level: 'error', known_cluster: expect.any(String) })
  const { known_cluster, found_cluster } = JSON.parse(line)
  const ready = await eventually('all nodes are refused', async () => {
    const answer = await fetch(`${frozen.admin}/readyz`)
    const body = (await answer.json()) as { nodes: readonly { state: string; reason?: string }[] }
    return body.nodes.every(({ state }) => state === 'unfit') ? { status: answer.status, ...body } : undefined
  })
  expect(ready.status).toBe(503)
  const reason = `it belongs to the cluster ${found_cluster}, and this sidecar has worked with ${known_cluster}`
  expect(ready.nodes[0]?.reason).toContain(reason)
  expect(await (await fetch(`${frozen.admin}/metrics`)).text()).toMatch(/^fencepost_cluster_replaced 1$/m)
  expect(await (await fetch(`${fresh.admin}/metrics`)).text()).toMatch(/^fencepost_cluster_replaced 0$/m)
})
