/** The copies of a rejoin count for that rejoin only, however late they arrive. */
import { expect, onTestFinished, test } from 'vitest'
import type { Merged } from '../../src/core/record/record-merge.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { fingerprintOf, joinCluster, keyOf } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

test('a late adoption that reaches a node that votes again changes no record there', async () => {
  const servers = await startRedisServers(3)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const sidecar = await joinCluster(servers.urls, { quarantineMs: 2_000 })
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  await sidecar.votes(3)
  await servers.kill(0)
  await servers.start(0, { emptied: true })
  const [member] = sidecar.nodes.members
  const waiting = await eventually('it waits', () =>
    member?.state.kind === 'quarantined' && member.state.facts.quarantine !== undefined ? member : undefined,
  )
  if (waiting.state.kind !== 'quarantined') throw new Error('it waits')
  const { facts } = waiting.state
  const late = sidecar.nodes.rejoiningNode(waiting, facts)
  await sidecar.votes(3)
  // Held and released on this node: the late copies would take the first from its holder, and make the second held.
  const counted = await sidecar.claim('counted')
  const released = await sidecar.claim('released')
  if (counted.kind !== 'granted' || released.kind !== 'granted') throw new Error('both are free')
  await sidecar.leases.release(released.lease)
  const client = clientOf(servers.at(0).url)
  const keys = [keyOf('counted'), keyOf('released')]
  const stands = await eventually('the node has both', async () => {
    const records = await client.mget(keys)
    return records[0]?.startsWith('1C') && records[1]?.startsWith('1R') ? records : undefined
  })

  const gathered = (fence: number): Merged => ({
    record: {
      state: 'claimed',
      fence,
      owner: 'f'.repeat(32),
      attempt: 1,
      fingerprint: fingerprintOf('another content'),
      claimedAtNodeMs: facts.nodeMs,
      leaseUntilNodeMs: 10_000,
    },
    ttlMs: 60_000,
    chosen: false,
  })
  const nonce = facts.quarantine?.nonce ?? ''
  const adopting = late.adopt(nonce, [
    { key: keyOf('counted'), merged: gathered(counted.lease.token - 1) },
    { key: keyOf('released'), merged: gathered(released.lease.token + 1) },
  ])
  const [told] = await Promise.allSettled([adopting])
  expect(await client.mget(keys)).toEqual(stands)
  expect(told).toMatchObject({
    reason: { message: `${sidecar.name(0)} waits under another nonce by now, or votes` },
  })
})
