/** The polls of the nodes of one sidecar: one timer for all of them, and scripts that are called by their digests. */
import type { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { fieldsOf } from '../../src/redis/server-program.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

async function start(inspectEveryMs: number, more: { readonly deadlineMs?: number } = {}) {
  const servers = await startRedisServers(3)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const sidecar = await joinCluster(servers.urls, {
    names: ['redis-0', 'redis-1', 'redis-2'],
    inspectEveryMs,
    ...more,
  })
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  await sidecar.votes(3)
  const client = clientOf(servers.at(0).url)
  return { servers, sidecar, client }
}

/** Each poll reads the configuration. */
async function callsAt(client: Redis, name: 'config\\|get' | 'eval'): Promise<number> {
  const stats = await client.info('commandstats')
  return Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0)
}

async function looksOn(client: Redis, more: number): Promise<void> {
  const before = await callsAt(client, 'config\\|get')
  await eventually(
    'it was polled again',
    async () => (await callsAt(client, 'config\\|get')) >= before + more,
  )
}

test('a node that does not answer its poll holds up no poll of the others', async () => {
  // Far longer than a poll takes on a busy machine.
  const { servers, sidecar, client } = await start(20, { deadlineMs: 20_000 })
  servers.pause(1)
  // A poll may have been under way, and one more may have begun with that of the silent node: a third began without it.
  await looksOn(client, 3)
  // Its poll is still waited for.
  expect(sidecar.states()[1]).toBe('voting')
  servers.resume(1)
})

test('a poll sends no script that the node knows, and sends those again that it has flushed', async () => {
  const { sidecar, client } = await start(100)
  // Polls that are under way together, as on a busy machine, may each send what the node does not know yet.
  const quiet = (more: number) =>
    eventually('three polls send none', async () => {
      const before = await callsAt(client, 'eval')
      await looksOn(client, 3)
      return before >= more && (await callsAt(client, 'eval')) === before && before
    })
  const before = await quiet(1)
  await client.script('FLUSH')
  // One for membership, one for the heartbeat.
  await quiet(before + 2)
  expect(sidecar.states()[0]).toBe('voting')
})

// biome-ignore format: the table reads as a table
test.each([
  ['a:1\r\n',                       'a',       '1'],
  ['# Server\r\na:1\r\nb:2\r\n',    'a',       '1'],
  ['# Server\r\na:1\r\nb:2\r\n',    'b',       '2'],
  ['# Server\r\naa:1\r\na:2\r\n',   'a',       '2'],
  ['# Server\r\nb:a:1\r\n',         'a',       ''],
  ['# Server\r\na:\r\nb:2\r\n',     'a',       ''],
  ['# Server\nredis_version:7.0\n', 'redis_version', '7.0'],
  ['',                              'a',       ''],
])('of %j the field %s is %j', (info, name, value) => {
  expect(fieldsOf(info)(name)).toBe(value)
})
