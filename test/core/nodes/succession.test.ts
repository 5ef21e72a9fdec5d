import { expect, test } from 'vitest'
import { epochFor } from '../../../src/core/nodes/enrolment-rules.ts'
import { Succession } from '../../../src/core/nodes/succession.ts'

const ENROLLED_MS = 1_000_000

/** A node that votes, enrolled under the nonce `first`, with a pulse so many seconds after that. */
function node(pulseAfterS: number | undefined, { run = 'r1', nonce = 'first', enrolledAfterS = 0 } = {}) {
  return {
    runId: 'r1',
    nodeMs: ENROLLED_MS,
    epoch: epochFor('r1', nonce, ENROLLED_MS + enrolledAfterS * 1_000),
    quarantine: undefined,
    cluster: undefined,
    pulse: pulseAfterS === undefined ? undefined : { runId: run, nodeMs: ENROLLED_MS + pulseAfterS * 1_000 },
  }
}

/** With a tolerated step of one second: nodes that had a pulse at that time noted so of the node. */
function succession(...noted: readonly (readonly [nonce: string, afterS: number])[]) {
  const known = new Succession(1_000)
  for (const [nonce, afterS] of noted) known.used('a', nonce, ENROLLED_MS + afterS * 1_000)
  return known
}

test('a node with its last pulse long before another enrolment of its name was in use was out of use', () => {
  expect(succession(['second', 60]).isOver('a', node(10))).toBe(true)
  expect(succession(['first', 10], ['second', 60]).isOver('a', node(10))).toBe(true)
})

test('a node that was merely cut off is known under its own enrolment', () => {
  expect(succession(['first', 600]).isOver('a', node(10))).toBe(false)
})

test('notes of the enrolment before are on their way out', () => {
  expect(succession(['before', 5]).isOver('a', node(0))).toBe(false)
  expect(succession(['before', 65]).isOver('a', node(10, { enrolledAfterS: 60 }))).toBe(false)
})

test('of two servers that are used at once neither was out of use', () => {
  expect(succession(['second', 61]).isOver('a', node(60))).toBe(false)
})

test('where the run that votes has no pulse, nothing says when it was used', () => {
  expect(succession(['second', 60]).isOver('a', node(undefined))).toBe(false)
  expect(succession(['second', 60]).isOver('a', node(10, { run: 'r0' }))).toBe(false)
})

test('each name is judged by itself, and by what was seen since it was judged last', () => {
  const known = succession(['second', 60])
  expect(known.isOver('b', node(10))).toBe(false)
  known.forget('a')
  expect(known.isOver('a', node(10))).toBe(false)
})
