/**
 * A majority that votes and takes no writes, in the running sidecar: no claim can be granted, so it is a lost quorum to whoever watches.
 *
 * Bug: readiness said that claims are slow, `FencepostQuorumLost` stayed silent, and pages named error rates alone.
 */
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

test('it is unready for its quorum, whose size a scrape shows, until a majority takes writes again', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({ ...PATIENT, ...between(servers, application) })
  const operators = servers.urls.slice(0, 2).map((url) => new Redis(url))
  onTestFinished(() => {
    for (const operator of operators) operator.disconnect()
  })
  const readiness = async () => {
    const answer = await fetch(`${sidecar.admin}/readyz`)
    const { reasons } = (await answer.json()) as { reasons?: readonly string[] }
    return [answer.status, ...(reasons ?? [])].join(': ')
  }
  const reachable = async () => {
    const text = await (await fetch(`${sidecar.admin}/metrics`)).text()
    return Number(/^fencepost_quorum_reachable_nodes (\d)$/m.exec(text)?.[1])
  }
  expect([await readiness(), await reachable()]).toEqual(['200', 3])

  for (const operator of operators) await operator.config('SET', 'min-replicas-to-write', '1')
  await eventually('it is unready', async () => (await readiness()).startsWith('503'))
  expect(await readiness()).toContain('1 of 3 nodes take writes, 2 are needed')
  await eventually('two nodes are not counted', async () => (await reachable()) === 1)

  await operators[0]!.config('SET', 'min-replicas-to-write', '0')
  await eventually('it is ready', async () => (await readiness()) === '200')
  expect(await reachable()).toBe(2)
})
