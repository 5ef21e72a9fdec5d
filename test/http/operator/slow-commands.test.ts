/** The slow logs of the nodes as one list for an operator: newest first, and a node that is silent is not one without entries. */
import { expect, test } from 'vitest'
import type { NodeLook } from '../../../src/core/nodes/node-stats.ts'
import { slowCommandsOf } from '../../../src/http/operator/overview.ts'
import { startOperatorApi } from '../../support/operator-api.ts'

const look = (slowlogLength: number, atWallMs: readonly number[] = []): NodeLook => ({
  stats: {
    memoryUsedBytes: 1,
    memoryMaxBytes: 2,
    memoryFragmentationRatio: 1,
    evictedKeys: 0,
    expiredKeys: 0,
    connectedClients: 1,
    blockedClients: 0,
    aofLastWriteOk: 1,
    slowlogLength,
    slowCommands: slowlogLength,
  },
  slowCommands: atWallMs.map((at, id) => ({ id, command: 'EVALSHA', durationMs: 12.5, atWallMs: at })),
})

const entry = (node: string, at: string) => ({ at, node, command: 'EVALSHA', duration_ms: 12.5 })

test('entries of several nodes are one list, newest first, with the length of each log', () => {
  expect(
    slowCommandsOf([
      { node: 'redis-0', look: look(7, [4_000, 1_000]) },
      { node: 'redis-1', look: look(1, [2_000]) },
    ]),
  ).toEqual({
    commands: [
      entry('redis-0', '1970-01-01T00:00:04.000Z'),
      entry('redis-1', '1970-01-01T00:00:02.000Z'),
      entry('redis-0', '1970-01-01T00:00:01.000Z'),
    ],
    nodes: [
      { node: 'redis-0', known: true, entries: 7 },
      { node: 'redis-1', known: true, entries: 1 },
    ],
  })
})

test.each<[what: string, look: NodeLook | undefined, known: object]>([
  ['that has no entry', look(0), { known: true, entries: 0 }],
  ['that does not answer', undefined, { known: false }],
  ['whose user may not ask', look(Number.NaN), { known: false }],
])('of a node %s it says so', (_, of, known) => {
  expect(slowCommandsOf([{ node: 'redis-0', look: of }])).toEqual({
    commands: [],
    nodes: [{ node: 'redis-0', ...known }],
  })
})

test('who may only look sees them, too', async () => {
  await using api = await startOperatorApi({ slowLogs: [{ node: 'redis-0', look: look(1, [1_000]) }] })
  const { status, body } = await api.viewer.call('/slow-commands')
  expect([status, body.commands]).toEqual([200, [entry('redis-0', '1970-01-01T00:00:01.000Z')]])
})
