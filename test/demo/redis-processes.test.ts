/** The nodes of the demonstration are its own: another's server is not used, and another's sidecar is not served. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { startRedisProcesses } from '../../src/demo/redis-processes.ts'
import { requireProgram } from '../support/programs.ts'

test('a node takes commands from whoever has its URL with the password, and from nobody else', async () => {
  await using nodes = await startRedisProcesses(requireProgram('redis'), 2)
  for (const url of nodes.urls) {
    using own = client(url)
    expect(await own.ping()).toBe('PONG')
    using stranger = client(url.replace(/\/\/.*@/, '//'))
    await expect(stranger.ping()).rejects.toThrow('NOAUTH')
  }
})

test('a server that ends before it takes connections is told with its own words', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-test-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const program = join(folder, 'redis-server')
  await writeFile(program, '#!/bin/sh\necho "Failed listening on port, aborting."\nexit 1\n', { mode: 0o755 })
  await expect(startRedisProcesses(program, 1)).rejects.toThrow(
    `${program} ended (exit code 1) before it took connections: Failed listening on port, aborting.`,
  )
})

function client(url: string): Disposable & Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: 0, enableReadyCheck: false })
  redis.on('error', () => {})
  return Object.assign(redis, { [Symbol.dispose]: () => redis.disconnect() })
}
