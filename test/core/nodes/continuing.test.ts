import { expect, test } from 'vitest'
import { SILENT } from '../../../src/core/events.ts'
import { Continuing, type Watcher } from '../../../src/core/nodes/continuing.ts'
import type { NodeView, WaitingNode } from '../../../src/core/nodes/continuity.ts'
import { NOTHING_COPIED, type Quarantine, type RejoiningNode } from '../../../src/core/nodes/rejoin-rules.ts'

const CLUSTER = { id: 'c1', quarantineMs: 60_000 }
const QUARANTINE: Quarantine = {
  runId: 'a2',
  nonce: 'n',
  sinceNodeMs: 20_000,
  origin: 'forgot',
  progress: NOTHING_COPIED,
}
const others = (name: string) =>
  new Map(['a', 'b', 'c'].filter((one) => one !== name).map((one) => [one, 10_000]))
const heartbeat = (name: string) => ({
  name,
  runId: `${name}1`,
  nodeMs: 10_000,
  durable: true,
  others: others(name),
})
const membership = (name: string, runId: string) => ({
  runId,
  nodeMs: 21_000,
  incarnation: `1:${name}1:nonce:5000`,
  quarantine: undefined,
  cluster: CLUSTER,
})
const voting = (name: string): NodeView => ({
  kind: 'voting',
  name,
  membership: membership(name, `${name}1`),
  heartbeat: heartbeat(name),
})
/** It synced each write, and no later heartbeat of it is known. */
const NO_LOSS: WaitingNode = {
  kind: 'waiting',
  name: 'a',
  membership: membership('a', 'a2'),
  heartbeat: heartbeat('a'),
  durable: true,
  startedNodeMs: 20_000,
  clockAgrees: true,
  clockRanOn: true,
  seenHeartbeatMs: 10_000,
  heardHeartbeatMs: 10_000,
}

/** One turn for a node that is this now, and that when everybody was polled again. */
async function turn(now: WaitingNode, then: WaitingNode) {
  let seen = now
  const joined: string[] = []
  const target = { join: async (nonce: string) => joined.push(nonce) > 0 } as unknown as RejoiningNode
  const watcher: Watcher = {
    view: () => ({
      nodes: [seen, voting('b'), voting('c')],
      clusterId: 'c1',
      required: 2,
      toleratedStepMs: 1_000,
      answerMaxAgeMs: 2_000,
    }),
    pollAgain: async () => {
      seen = then
    },
    sourceOf: () => undefined,
  }
  const ports = { events: SILENT, monoMs: () => 0, watcher, occupy: async () => true }
  const kind = (await new Continuing().turn(target, 0, QUARANTINE, 0, CLUSTER, ports))?.kind
  return { kind, joined }
}

test('a node that has forgotten nothing votes at once', async () => {
  expect(await turn(NO_LOSS, NO_LOSS)).toEqual({ kind: 'joined', joined: ['n'] })
})

test('a node of which a later heartbeat becomes known just before it would vote does not vote by its own data', async () => {
  expect(await turn(NO_LOSS, { ...NO_LOSS, heardHeartbeatMs: 11_000 })).toEqual({
    kind: undefined,
    joined: [],
  })
})
