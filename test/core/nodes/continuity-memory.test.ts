import { expect, test } from 'vitest'
import { ContinuityMemory } from '../../../src/core/nodes/continuity.ts'

const TERMS = { required: 2, toleratedStepMs: 1_000, answerMaxAgeMs: 2_000 }

// Bug: a promoted replica counted as the process of the node that it followed, started again.
test.for([
  ['0', '0', undefined],
  ['0', 'b'.repeat(40), true],
  ['b'.repeat(40), 'b'.repeat(40), undefined],
] as const)(
  'joined with the lineage %s and waiting with %s: was a replica: %s',
  ([then, now, wasReplica]) => {
    const memory = new ContinuityMemory(['a', 'b', 'c'], TERMS)
    const facts = {
      runId: 'run2',
      nodeMs: 10_000,
      incarnation: `1:run1:nonce:5000:${then}`,
      quarantine: undefined,
      cluster: { id: 'c1', quarantineMs: 60_000 },
      heartbeat: undefined,
      durable: true,
      startedNodeMs: 9_000,
      lineage: now,
    }
    memory.saw(0, facts, { nodeMs: 10_000, sentMonoMs: 1, receivedMonoMs: 2 }, true)
    const [seen] = memory.view([{ voting: false, facts }, undefined, undefined], 'c1').nodes
    expect(seen).toMatchObject({ kind: 'waiting', name: 'a' })
    expect(seen?.kind === 'waiting' ? seen.wasReplica : 'not waiting').toBe(wasReplica)
  },
)

const NAMES = ['a', 'b', 'c']
const at = (nodeMs: number, monoMs: number) => ({ nodeMs, sentMonoMs: monoMs, receivedMonoMs: monoMs })

function factsOf(name: string, nodeMs: number, run = `${name}1`) {
  return {
    runId: run,
    nodeMs,
    incarnation: `1:${name}1:nonce:5000:0`,
    quarantine: undefined,
    cluster: { id: 'c1', quarantineMs: 60_000 },
    heartbeat: undefined,
    durable: true,
    startedNodeMs: 1_000,
  }
}

test('a node whose votes do not count, because its clock may have jumped, gets no heartbeat and remembers nothing for others', () => {
  const memory = new ContinuityMemory(NAMES, TERMS)
  const facts = NAMES.map((name) => factsOf(name, 10_000))
  const present = facts.map((its) => ({ voting: true, facts: its }))
  for (const [index, its] of facts.entries()) memory.saw(index, its, at(10_000, 0), index !== 0)
  expect(memory.view(present, 'c1').nodes.map(({ kind }) => kind)).toEqual(['silent', 'voting', 'voting'])
  expect(facts.map((its, index) => memory.heartbeatDue(index, its, present)?.name)).toEqual([
    undefined,
    'b',
    'c',
  ])
})

test.each([
  ['ran on as ours', 12_000, true],
  ['was set back', 9_000, false],
])(
  'of a node that was started again, and whose clock %s meanwhile, that is known for good',
  (_, nodeMs, ranOn) => {
    const memory = new ContinuityMemory(NAMES, TERMS)
    memory.saw(0, factsOf('a', 10_000), at(10_000, 0), true)
    // The clock is right again at the second poll.
    const polls = [at(nodeMs, 2_000), at(13_000, 3_000)]
    const seen = polls.map((sample) => {
      const facts = factsOf('a', sample.nodeMs, 'a2')
      memory.saw(0, facts, sample, true)
      const [node] = memory.view([{ voting: false, facts }, undefined, undefined], 'c1').nodes
      return node?.kind === 'waiting' ? node.clockRanOn : 'not waiting'
    })
    expect(seen).toEqual([ranOn, ranOn])
  },
)

/** Bug: one node with a heartbeat of a time to come, by a clock that jumped or by a stranger's hand, made liars of all others. */
test('a heartbeat that is to come is passed on to no other node', () => {
  const memory = new ContinuityMemory(NAMES, TERMS)
  const runs = NAMES.map((name) => factsOf(name, 10_000))
  const facts = runs.map((its, index) => {
    const nodeMs = [10_000 + 3 * TERMS.toleratedStepMs, 9_000, 9_000][index] ?? 0
    return {
      ...its,
      heartbeat: { name: NAMES[index] ?? '', runId: its.runId, nodeMs, durable: true, others: new Map() },
    }
  })
  for (const [index, its] of facts.entries()) memory.saw(index, its, at(10_000, 0), true)
  const due = memory.heartbeatDue(
    1,
    facts[1] ?? factsOf('b', 10_000),
    facts.map((its) => ({ voting: true, facts: its })),
  )
  expect([...(due?.others ?? [])]).toEqual([['c', 9_000]])
})
