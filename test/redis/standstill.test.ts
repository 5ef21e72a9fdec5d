/** The status of waiting nodes: a loss is to be declared only where no vote comes back by itself. */

import { expect, onTestFinished, test } from 'vitest'
import { standstillOf } from '../../src/core/nodes/shown-nodes.ts'
import { eventually } from '../support/eventually.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

test('while nodes come back by their own data the status demands no declared loss, however short the quarantine', {
  timeout: 60_000,
}, async () => {
  await using servers = await startRedisServers(3, { appendOnly: true })
  const names = servers.urls.map((url) => new URL(url).host)
  const before = await joinCluster(servers.urls, { names, inspectEveryMs: 200 })
  onTestFinished(() => before[Symbol.asyncDispose]())
  await before.votes(3)
  await before.carryOut('kept')
  await eventually('all nodes have heartbeats', () =>
    before.nodes.members.every(({ state }) => 'facts' in state && state.facts.heartbeat?.others.size === 2),
  )
  await before[Symbol.asyncDispose]()
  await Promise.all([0, 1, 2].map((index) => servers.kill(index)))
  await Promise.all([0, 1, 2].map((index) => servers.start(index)))
  // It knows none of them: they get the records of all of them, which takes longer than the quarantine here.
  const after = await joinCluster(servers.urls, { names, inspectEveryMs: 200 })
  onTestFinished(() => after[Symbol.asyncDispose]())
  const said: string[] = []
  await eventually(
    'they vote',
    () => {
      said.push(...[standstillOf(after.nodes)].filter((sentence) => sentence !== undefined))
      return after.states().every((state) => state === 'voting')
    },
    { withinMs: 20_000 },
  )
  expect(said).toEqual([])
})
