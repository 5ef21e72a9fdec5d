// The nodes as the commands of an operator see them.
import { expect, onTestFinished, test } from 'vitest'
import { openNodes } from '../../src/app/cluster.ts'
import { openClusters } from '../../src/app/redis-groups.ts'
import { openStack } from '../../src/app/stack.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createBackground } from '../../src/core/background.ts'
import { SILENT } from '../../src/core/events.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { fingerprintOf, keyOf, outcomeOf } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { PATIENT } from '../support/sidecar.ts'

test('with a key ring, a command sees the outcome of a record as the sidecar does, and not as damaged', async () => {
  await using servers = await startRedisServers(3)
  const env = {
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_PROXY_LISTEN: 'off',
    FENCEPOST_KEY_RING_FILE: '/ring',
    FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
    ...PATIENT,
  }
  const loaded = loadConfig(env, () => `one ${Buffer.alloc(32, 1).toString('base64')}\n`)
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded))
  const { config } = loaded
  const outside = { clock: systemClock, random: systemRandom, events: SILENT }
  const nodes = await openNodes(config, systemClock, systemRandom, SILENT, {})
  onTestFinished(() => nodes[Symbol.asyncDispose]())
  const lateClaims = createBackground(Number.POSITIVE_INFINITY, () => {})
  using stack = openStack(config, nodes, {
    ...outside,
    tracedNode: (node) => node,
    required: 2,
    instance: 'sidecar-1',
    lateClaims,
    keyRing: config.keyRing && (() => config.keyRing!.ring),
  })
  const request = { key: keyOf('sealed'), fingerprint: fingerprintOf('sealed'), budgetMs: 5_000 }
  const claimed = await stack.leases.claim({ ...request, leaseMs: 30_000, retentionMs: 60_000 })
  if (claimed.kind !== 'granted') throw new Error(claimed.kind)
  expect(await stack.leases.complete(claimed.lease, outcomeOf('sealed'))).toEqual({ kind: 'recorded' })

  await using clusters = openClusters(config, SILENT, true)
  await clusters?.connect()
  expect(await clusters?.leases.read(request.key)).toMatchObject({
    kind: 'completed',
    outcome: outcomeOf('sealed'),
  })
})
