/** `fencepost doctor` on real nodes. Its judgements are in test/core/health/checkup.test.ts. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { doctor } from '../../src/cli/doctor.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

let servers: RedisServers
beforeAll(async () => {
  servers = await startRedisServers(3, { founded: true })
})
afterAll(() => servers[Symbol.asyncDispose]())

async function run(...args: string[]) {
  const { io, stdout, stderr } = bufferedIo({
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_PROXY_LISTEN: 'off',
  })
  // No sidecar is there: port 9 refuses.
  const exitCode = await doctor(['--admin', 'http://127.0.0.1:9', ...args], io)
  return { exitCode, stdout: stdout(), stderr: stderr() }
}

test('each check is one line with its verdict, and nothing is changed on the nodes', async () => {
  const { exitCode, stdout, stderr } = await run()
  expect([exitCode, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(/^ok {7}quorum {11}3 of 3 nodes vote, 2 are needed$/m)
  expect(stdout).toMatch(
    /^warning {2}independence {5}redis-0, redis-1, redis-2 are at one address, 127\.0\.0\.1: its loss/m,
  )
  expect(stdout).toMatch(/^ok {7}clocks .* at most \d+ ms off$/m)
  expect(stdout).toMatch(
    /^unknown {2}sidecar version {2}no sidecar answers at http:\/\/127\.0\.0\.1:9: run this in its pod/m,
  )
})

test('--json has the same findings, and a lost majority ends with 69', async () => {
  await servers.kill(0)
  await servers.kill(1)
  const { exitCode, stdout } = await run('--json')
  expect(exitCode).toBe(69)
  const { findings } = JSON.parse(stdout) as { findings: readonly { check: string; verdict: string }[] }
  expect(findings).toContainEqual(expect.objectContaining({ check: 'quorum', verdict: 'failed' }))
  expect(findings.filter(({ check }) => check === 'node').map(({ verdict }) => verdict)).toEqual([
    'failed',
    'failed',
  ])
})

test.each([
  [['--admin', 'nowhere'], 'is not accepted'],
  [['--unknown'], 'unknown option'],
])('%s is refused', async (args, says) => {
  const { exitCode, stderr } = await run(...args)
  expect(exitCode).toBe(64)
  expect(stderr).toContain(says)
})
