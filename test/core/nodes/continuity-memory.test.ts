import { expect, test } from 'vitest'
import { ContinuityMemory } from '../../../src/core/nodes/continuity-memory.ts'

const TERMS = { required: 2, toleratedStepMs: 1_000, answerMaxAgeMs: 2_000 }

// Bug: a promoted replica counted as the process of the node that it followed, started again.
test.for([
  ['0', '0', undefined],
  ['0', 'b'.repeat(40), true],
  ['b'.repeat(40), 'b'.repeat(40), undefined],
] as const)(
  'enrolled with the lineage %s and waiting with %s: was a replica: %s',
  ([then, now, wasReplica]) => {
    const memory = new ContinuityMemory(['a', 'b', 'c'], TERMS)
    const facts = {
      runId: 'run2',
      nodeMs: 10_000,
      epoch: `1:run1:nonce:5000:${then}`,
      quarantine: undefined,
      cluster: { id: 'c1', quarantineMs: 60_000 },
      pulse: undefined,
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
