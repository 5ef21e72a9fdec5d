import { expect, test } from 'vitest'
import { SILENT } from '../../../src/core/events.ts'
import { Continuing, type Watcher } from '../../../src/core/nodes/continuing.ts'
import type { NodeView, WaitingNode } from '../../../src/core/nodes/continuity.ts'
import {
  type EnrolmentNode,
  NOTHING_COPIED,
  type Quarantine,
} from '../../../src/core/nodes/enrolment-rules.ts'

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
const pulse = (name: string) => ({
  name,
  runId: `${name}1`,
  nodeMs: 10_000,
  durable: true,
  others: others(name),
})
const membership = (name: string, runId: string) => ({
  runId,
  nodeMs: 21_000,
  epoch: `1:${name}1:nonce:5000`,
  quarantine: undefined,
  cluster: CLUSTER,
})
const voting = (name: string): NodeView => ({
  kind: 'voting',
  name,
  membership: membership(name, `${name}1`),
  pulse: pulse(name),
})
/** It synced each write, and no later pulse of it is known. */
const INTACT: WaitingNode = {
  kind: 'waiting',
  name: 'a',
  membership: membership('a', 'a2'),
  pulse: pulse('a'),
  durable: true,
  startedNodeMs: 20_000,
  clockAgrees: true,
  clockRanOn: true,
  seenPulseMs: 10_000,
  heardPulseMs: 10_000,
}

/** One turn for a node that is this now, and that when everybody was looked at again. */
async function turn(now: WaitingNode, then: WaitingNode) {
  let seen = now
  const enrolled: string[] = []
  const target = { enrol: async (nonce: string) => enrolled.push(nonce) > 0 } as unknown as EnrolmentNode
  const watcher: Watcher = {
    view: () => ({
      nodes: [seen, voting('b'), voting('c')],
      clusterId: 'c1',
      required: 2,
      toleratedStepMs: 1_000,
      answerMaxAgeMs: 2_000,
    }),
    lookAgain: async () => {
      seen = then
    },
    sourceOf: () => undefined,
  }
  const ports = { events: SILENT, monoMs: () => 0, watcher, occupy: async () => true }
  const kind = (await new Continuing().turn(target, 0, QUARANTINE, 0, CLUSTER, ports))?.kind
  return { kind, enrolled }
}

test('a node that has forgotten nothing votes at once', async () => {
  expect(await turn(INTACT, INTACT)).toEqual({ kind: 'enrolled', enrolled: ['n'] })
})

test('a node of which a later pulse becomes known just before it would vote does not vote by its own data', async () => {
  expect(await turn(INTACT, { ...INTACT, heardPulseMs: 11_000 })).toEqual({ kind: undefined, enrolled: [] })
})
