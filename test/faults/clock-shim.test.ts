// A test can set the wall clock of another process, and no other clock.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { TestProcess } from '../support/processes.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { compileClockShim, ShiftedClock } from './clock-shim.ts'

/** A second: far above what a loaded machine needs between two looks, far below the steps. */
const SLACK_MS = 5_000

test('TIME of a redis-server follows its clock file, forwards, backwards and at another rate', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-clock-'))
  await using cleanup = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
  void cleanup
  using clock = new ShiftedClock(compileClockShim(folder), folder, 'node')
  await using servers = await startRedisServers(1, { env: () => clock.env })
  const client = new Redis(servers.at(0).url)
  await using closing = { [Symbol.asyncDispose]: async () => client.disconnect() }
  void closing
  const offsetMs = async () => {
    const [seconds, micros] = (await client.time()).map(Number)
    return (seconds ?? 0) * 1_000 + (micros ?? 0) / 1_000 - Date.now()
  }
  expect(Math.abs(await offsetMs())).toBeLessThan(SLACK_MS)
  clock.set(3_600_000)
  expect(Math.abs((await offsetMs()) - 3_600_000)).toBeLessThan(SLACK_MS)
  clock.set(-30_000)
  expect(Math.abs((await offsetMs()) + 30_000)).toBeLessThan(SLACK_MS)
  await client.set('key', 'value', 'PX', 60_000)
  clock.set(60_000)
  expect(await client.get('key')).toBeNull()
  clock.set(0, 1_000_000)
  await eventually('a clock at twice the rate to be a second ahead', async () => (await offsetMs()) > 1_000)
})

test('a Node process sees the shifted wall clock and its monotonic clock unshifted', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-clock-'))
  await using cleanup = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
  void cleanup
  using clock = new ShiftedClock(compileClockShim(folder), folder, 'sidecar')
  clock.set(-3_600_000)
  const program = `console.log(JSON.stringify({ wall: Date.now(), mono: String(process.hrtime.bigint()) }))`
  await using child = new TestProcess(process.execPath, ['-e', program], { env: clock.env })
  const [line] = await child.line(/^\{.*\}$/)
  const { wall, mono } = JSON.parse(line) as { wall: number; mono: string }
  expect(Math.abs(wall - (Date.now() - 3_600_000))).toBeLessThan(SLACK_MS)
  expect(Math.abs(Number(BigInt(mono) - process.hrtime.bigint()) / 1e6)).toBeLessThan(SLACK_MS)
})
