/**
 * From three nodes to five, as docs/operations/deploy.md says it: the sidecars stop, the list changes by a command,
 * they start.
 */
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { nodes } from '../../src/cli/nodes.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { type Sidecar, startSidecar } from '../support/sidecar.ts'

const RECORDS = 50

const SETTINGS = {
  FENCEPOST_LEASE: '4s',
  FENCEPOST_RESERVATION_MAX_LEASE: '4s',
  FENCEPOST_NODE_DEADLINE: '200ms',
  // For the command as well as the sidecars: a busy machine must not look like missing nodes.
  FENCEPOST_CLAIM_BUDGET: '5s',
  FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
  FENCEPOST_CLOCK_STEP: '100ms',
}

const pay = (sidecar: Sidecar, key: string) =>
  fetch(`${sidecar.proxy}/payments`, { method: 'POST', headers: { 'Idempotency-Key': key }, body: '{}' })

async function voting(sidecar: Sidecar): Promise<number> {
  const answer = await fetch(`${sidecar.admin}/readyz`)
  const { nodes } = (await answer.json()) as { nodes: { state: string }[] }
  return nodes.filter(({ state }) => state === 'voting').length
}

async function changeMembers(env: Readonly<Record<string, string>>, ...args: string[]) {
  const { io, stderr } = bufferedIo({ ...env, FENCEPOST_PROXY_LISTEN: 'off' })
  return { exitCode: await nodes(['change-members', ...args], io), stderr: stderr() }
}

test('the five nodes know every record of the three, also when two of the three are gone', {
  timeout: 90_000,
}, async () => {
  await using servers = await startRedisServers(5, { appendOnly: true })
  await using application = await startCountingApplication()
  const settings = { ...SETTINGS, FENCEPOST_UPSTREAM: application.url }
  const keys = Array.from({ length: RECORDS }, () => randomUUID())
  const three = servers.urls.slice(0, 3).join(',')
  await using before = await startSidecar({ ...settings, FENCEPOST_REDIS_NODES: three })
  await eventually('three nodes vote', async () => (await voting(before)) === 3)
  for (const key of keys) expect((await pay(before, key)).status).toBe(201)
  await before.process.end({ signal: 'SIGTERM' })

  const five = { ...settings, FENCEPOST_REDIS_NODES: servers.nodesSetting }
  const asked = await changeMembers(five)
  const id = /--confirm (\w+)/.exec(asked.stderr)?.[1] ?? ''
  expect((await changeMembers(five, '--confirm', id)).exitCode).toBe(0)

  await using after = await startSidecar(five)
  await eventually('all five vote', async () => (await voting(after)) === 5, { withinMs: 60_000 })
  await servers.kill(0)
  await servers.kill(1)
  for (const key of keys) {
    const again = await eventually('an answer', async () => {
      const answer = await pay(after, key)
      return answer.status === 201 && answer
    })
    expect([key, again.headers.get('idempotency-status')]).toEqual([key, 'replayed'])
  }
  expect(application.executions).toHaveLength(RECORDS)
})
