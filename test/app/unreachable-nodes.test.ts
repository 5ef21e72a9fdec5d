/**
 * What `/readyz` says of a node that a sidecar can't use: why, so that an operator knows what to repair.
 *
 * Bug: it was `connection closed` whatever had happened, because each failure ends its connection.
 */
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { listening } from '../support/listening.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'

test('each node that can not be used says why, for as long as it is so', async () => {
  await using locked = await startRedisServers(2, { config: ['requirepass secret'] })
  await using plain = await startRedisServers(1)
  const [withoutLogin, wrongLogin] = [0, 1].map((index) => new URL(locked.at(index).url))
  wrongLogin!.password = 'guessed'
  const nobody = `redis://127.0.0.1:${await freePort()}`
  const noTls = plain.at(0).url.replace('redis:', 'rediss:')
  const nodes = [withoutLogin, wrongLogin, nobody, 'redis://nodes.invalid:6379', noTls]
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: nodes.join() })
  const reasons = async () => {
    const answer = await fetch(`${sidecar.admin}/readyz`)
    const { nodes: seen } = (await answer.json()) as { nodes: { state: string; reason?: string }[] }
    return seen.map(({ state, reason }) => `${state}: ${reason}`)
  }
  const expected = [
    /down: it demands a password/,
    /down: it refuses user or password/,
    /down: .*ECONNREFUSED/,
    /down: .*(ENOTFOUND|EAI_AGAIN|ETIMEDOUT)/,
    /down: ./,
  ]
  await eventually('every node says why', async () => {
    const told = await reasons()
    return expected.every(
      (why, index) => why.test(told[index] ?? '') && !told[index]?.includes('connection closed'),
    )
  })
})

// Bug: once it was dialled again, it was told as one that may speak TLS alone, so people changed its URL.
test('a node that takes connections and answers nothing is told as such, and not as one that speaks TLS', async () => {
  const silent = createServer((socket) => void socket.on('error', () => {}))
  await using at = await listening(silent)
  await using servers = await startRedisServers(2)
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: [...servers.urls, `redis://127.0.0.1:${at.port}`].join(),
  })
  let dialled = 0
  silent.on('connection', () => {
    dialled += 1
  })
  const reasons = new Set<string>()
  await eventually('it is dialled again and again', async () => {
    const answer = await fetch(`${sidecar.admin}/readyz`)
    const { nodes } = (await answer.json()) as { nodes: { reason?: string }[] }
    reasons.add(nodes[2]?.reason ?? '')
    return dialled >= 2
  })
  expect([...reasons].filter((reason) => reason !== 'it was not dialled yet')).toEqual([
    'it takes connections and answers nothing',
  ])
})

// Bug: the log had one line, at level info, with `quorum_nodes: "2/3"`, while no node voted and none ever would.
test('a start without a majority says in the log how many vote, and why the others do not', async () => {
  await using locked = await startRedisServers(3, { config: ['requirepass secret'] })
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: locked.nodesSetting })
  await sidecar.process.line(
    /"level":"warn".*"message":"not ready: 0 of 3 nodes can vote, 2 are needed; 127\.0\.0\.1:\d+ is down: it demands a password [^"]*; 127\.0\.0\.1:\d+ is down: it demands/,
  )
})

test('it says since when a node is as it is: by the change that was seen, or as the node says', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  const foundedMs = Date.now()
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: servers.nodesSetting })
  const nodes = async () => {
    const answer = await fetch(`${sidecar.admin}/readyz`)
    const { nodes: seen } = (await answer.json()) as { nodes: { state: string; sinceWallMs: number }[] }
    return seen
  }
  await eventually('all vote', async () => (await nodes()).every(({ state }) => state === 'voting'))
  for (const { sinceWallMs } of await nodes()) expect(sinceWallMs).toBeLessThanOrEqual(foundedMs)
  const killedMs = Date.now()
  await servers.kill(0)
  await eventually('one is down', async () => (await nodes())[0]?.state === 'down')
  const [down, ...others] = await nodes()
  expect(down?.sinceWallMs).toBeGreaterThanOrEqual(killedMs)
  for (const { sinceWallMs } of others) expect(sinceWallMs).toBeLessThanOrEqual(foundedMs)
})
