/** A node whose reply has no end: the connection is ended at a number, and the others go on. */

import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createRedisClient, onDown } from '../../src/redis/connect.ts'
import { systemRandom } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const KIB = 1024
const PART = 'x'.repeat(64 * KIB)

/** Answers whatever it is asked with the beginning of a reply, and goes on for as long as somebody reads. */
async function endless(beginning: string, part: string): Promise<{ url: string; sent: () => number }> {
  let sent = 0
  const server = createServer((socket) => {
    const more = (): void => {
      while (!socket.destroyed) {
        sent += part.length
        if (!socket.write(part)) return
      }
    }
    socket.on('error', () => {}).on('drain', more)
    socket.once('data', () => {
      socket.write(beginning)
      more()
    })
  })
  const at = await listening(server)
  onTestFinished(() => at[Symbol.asyncDispose]())
  return { url: `redis://127.0.0.1:${at.port}`, sent: () => sent }
}

const REPLIES: readonly [what: string, beginning: string, part: string][] = [
  ['a text', '$500000000\r\n', PART],
  ['a list', '*500000000\r\n', ':1\r\n'.repeat(16 * KIB)],
  ['a line', '+', PART],
]

test.each(REPLIES)(
  '%s without an end is read up to a mebibyte, and the reason says so',
  async (_, beginning, part) => {
    const { url, sent } = await endless(beginning, part)
    const reasons: string[] = []
    const client = createRedisClient({ url }, { connectTimeoutMs: 2_000, random: systemRandom })
    onTestFinished(() => client.disconnect())
    onDown(client, { url }, ({ reason }) => void reasons.push(reason))
    client.connect().catch(() => {})
    await eventually('the connection is ended', () => reasons.length > 0)
    client.disconnect()
    expect(reasons[0]).toContain('its reply to info is longer than 1048576 bytes, and it has no end so far')
    // What the kernel holds of both sides is sent, too.
    expect(sent()).toBeLessThan(16 * KIB * KIB)
  },
)

test('the others go on without it', async () => {
  const { url } = await endless('$500000000\r\n', PART)
  await using servers = await startRedisServers(3)
  await using founders = await joinCluster(servers.urls)
  await founders.votes(3)
  await servers.kill(2)
  await using sidecar = await joinCluster([...servers.urls.slice(0, 2), url])
  await sidecar.votes(2)
  await sidecar.carryOut('beside one that talks without an end')
  expect(sidecar.nodes.states()[2]?.state).toMatchObject({
    kind: 'down',
    reason: expect.stringContaining('1048576 bytes'),
  })
})

// Bug: replies that came one at a time were counted together, and each connection ended after a mebibyte of them.
test('many short replies, one at a time, end no connection', async () => {
  await using servers = await startRedisServers(1)
  const { url } = servers.at(0)
  const client = createRedisClient({ url }, { connectTimeoutMs: 2_000, random: systemRandom })
  onTestFinished(() => client.disconnect())
  let ended = 0
  client.on('close', () => {
    ended += 1
  })
  await client.connect()
  const text = 'x'.repeat(2 * KIB)
  for (let round = 0; round < 1_000; round += 1) expect(await client.echo(text)).toBe(text)
  expect(ended).toBe(0)
})
