// `fencepost top --once` against real sidecars: the screen shows what happened.
import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { startMonitoredLoad } from '../support/monitored-stack.ts'
import { startFencepost } from '../support/processes.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'

test('it shows decisions, latencies, votes of each node, and why a sidecar does not answer', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: application.url,
    ...PATIENT,
  })
  await using _ = startMonitoredLoad([sidecar], 60, 3)
  await application.arrived(10)
  await using seen = startFencepost(['top', sidecar.admin, '--once'])
  expect(await seen.exited, seen.output).toMatchObject({ code: 0 })
  expect(seen.output).toContain('1 of 1 sidecars answer')
  expect(seen.output).toMatch(/acquired [1-9]/)
  expect(seen.output).toMatch(/p95 [\d.]+ ms/)
  expect(seen.output).toMatch(new RegExp(`^${servers.names[2]} +1/1 +[\\d.]+ ms`, 'm'))
  expect(seen.output).toMatch(/^http:\/\/127\.0\.0\.1:\d+ +yes/m)

  await servers.kill(2)
  await using other = startFencepost(['top', sidecar.admin, 'http://127.0.0.1:9', '--once'])
  expect(await other.exited).toMatchObject({ code: 1 })
  expect(other.output).toContain('1 of 2 sidecars answer')
  expect(other.output).toMatch(new RegExp(`^${servers.names[2]} +0/1 .* down$`, 'm'))
  expect(other.output).toMatch(/^http:\/\/127\.0\.0\.1:9 +NO/m)
}, 60_000)
