import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { quarantineMsFor } from '../../src/core/nodes/rejoin-rules.ts'
import { eventually } from '../support/eventually.ts'
import { joinCluster, outcomeOf, type Sidecar } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const OWN_FILE = ['--appendonly', 'yes']

// Bug: `doctor` advised to set it, and a node that is restarted for it is empty. Done to all nodes at once, all was executed again.
test('nodes that get their append-only file while they run forget nothing, however many restart at once', async () => {
  await using servers = await startRedisServers(3, { config: ['save 3600 1'] })
  {
    await using sidecar = await join(servers.urls)
    await sidecar.votes(3)
    await sidecar.carryOut('before the file')
    const before = sidecar.events.length
    for (const url of servers.urls) await switchOn(url)
    await sidecar.votes(3)
    expect(sidecar.events.slice(before).filter(({ kind }) => kind === 'node_state')).toEqual([])
    await sidecar.carryOut('with the file')
    await eventually('each has a heartbeat that says so, and knows those of the others', () =>
      sidecar.nodes
        .states()
        .every(
          ({ state }) =>
            state.kind === 'voting' &&
            state.facts.heartbeat?.durable === true &&
            state.facts.heartbeat.others.size === 2,
        ),
    )
  }
  for (const index of [0, 1, 2]) await servers.kill(index)
  for (const index of [0, 1, 2]) await servers.start(index, { args: OWN_FILE })
  await using after = await join(servers.urls)
  await after.votes(3)
  for (const key of ['before the file', 'with the file'])
    expect(await after.claim(key)).toMatchObject({ outcome: outcomeOf(key) })
})

test('a server that is started with an append-only file for the first time is empty, whatever its RDB file holds', async () => {
  await using servers = await startRedisServers(1, { config: ['save 3600 1'] })
  const url = servers.urls[0] ?? ''
  await asked(url, 'SET', 'a record', 'kept')
  await servers.stop(0)
  await servers.start(0)
  expect(await asked(url, 'GET', 'a record')).toBe('kept')
  await servers.stop(0)
  await servers.start(0, { args: OWN_FILE })
  expect(await asked(url, 'GET', 'a record')).toBeNull()
})

function join(urls: readonly string[]): Promise<Sidecar> {
  const names = urls.map((url) => new URL(url).host)
  return joinCluster(urls, { names, quarantineMs: quarantineMsFor(60_000, 1_000), inspectEveryMs: 200 })
}

/** As docs/operations/nodes.md says. */
async function switchOn(url: string): Promise<void> {
  await asked(url, 'CONFIG', 'SET', 'appendonly', 'yes')
  await eventually('its first rewrite is over', async () => {
    const info = String(await asked(url, 'INFO', 'persistence'))
    return ['aof_rewrite_in_progress:0', 'aof_rewrite_scheduled:0', 'aof_last_bgrewrite_status:ok'].every(
      (line) => info.includes(`${line}\r\n`),
    )
  })
}

async function asked(url: string, command: string, ...args: readonly string[]): Promise<unknown> {
  const client = new Redis(url, { lazyConnect: true })
  try {
    await client.connect()
    return await client.call(command, ...args)
  } finally {
    client.disconnect()
  }
}
