/**
 * Ports of the demonstration. Bug: they were ephemeral ones, and a connection of another program took one before the sidecar listened
 * on it; the demonstration ended without a word why.
 */
import { expect, test } from 'vitest'
import { freePorts } from '../../src/demo/redis-processes.ts'
import { startSidecar } from '../../src/demo/sidecar-process.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { freePort } from '../support/free-port.ts'
import { between } from '../support/sidecar.ts'

test('each is another one, and none is one that the system gives to clients', async () => {
  const ports = await freePorts(50)
  expect(new Set(ports).size).toBe(50)
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(12_000)
    expect(port).toBeLessThan(16_000)
  }
})

// Bug: a demonstration took the port of a node that another test had killed and was about to restart. That test's
// sidecar let the demonstration's node join its cluster, and both failed.
test('none is a port that a test gives to its servers', async () => {
  const [own, others] = [await freePorts(50), await Promise.all(Array.from({ length: 50 }, freePort))]
  expect(Math.max(...own)).toBeLessThan(Math.min(...others))
})

test('a sidecar whose port is taken says so', async () => {
  await using application = await startCountingApplication()
  const [admin = 0] = await freePorts(1)
  const env = { PATH: process.env.PATH, ...between('embedded', application) }
  const taken = Number(new URL(application.url).port)
  await expect(startSidecar(env, { proxy: taken, admin })).rejects.toThrow(
    new RegExp(`^the sidecar ended with exit code \\d+\n(.|\n)*${taken}`),
  )
})
