/** All nodes were emptied and the loss was declared: what a worker is told that comes with a reservation of before. */
import { createClient, LeaseLostError } from '@fencepost/client'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { nodes as nodesCommand } from '../../src/cli/nodes.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'

const QUIET = { FENCEPOST_PROXY_LISTEN: 'off', FENCEPOST_API_LISTEN: 'off', FENCEPOST_ADMIN_LISTEN: 'off' }

test('it is lost, which is neither a mistake of the worker nor a lease that another has', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  const settings = {
    ...PATIENT,
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_NODE_DEADLINE: '250ms',
    FENCEPOST_LEASE: '5s',
    FENCEPOST_RESERVATION_MAX_LEASE: '5s',
    FENCEPOST_CLOCK_STEP: '0s',
  }
  await using before = await startSidecar(settings)
  let api = before.api
  const client = createClient({
    url: before.api,
    fetch: (input, init) => fetch(String(input).replace(before.api, api), init),
  })
  const reservation = await client.reserve('an order', { leaseMs: 5_000, heartbeat: false })
  const [admin] = servers.urls.map((url) => new Redis(url))
  const id = (await admin?.hget('dedup::cluster', 'id')) ?? ''
  admin?.disconnect()

  for (const url of servers.urls) {
    const node = new Redis(url)
    await node.flushall()
    node.disconnect()
  }
  await eventually('the loss is declared', async () => {
    const { io } = bufferedIo({ ...settings, ...QUIET })
    return (await nodesCommand(['declare-loss', '--confirm', id, '--by', 'ann', '--no-wait'], io)) === 0
  })
  await eventually('the cluster votes again', async () => (await fetch(`${before.admin}/readyz`)).ok, {
    withinMs: 30_000,
  })

  await using since = await startSidecar(settings)
  api = since.api
  const lost = await reservation.complete('paid').catch((error: unknown) => error)
  expect(lost).toMatchObject({ name: 'ReservationLostError', status: 410, code: 'reservation-lost' })
  // Whoever only stops on any lost lease stops.
  expect(lost).toBeInstanceOf(LeaseLostError)
  expect(await client.reserve('an order', { leaseMs: 5_000, heartbeat: false })).toMatchObject({ attempt: 1 })
})
