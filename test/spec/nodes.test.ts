/** What real nodes carry out under faults is what the model says, and what they carry out of a broken script is not. */

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import type { Done } from './fault-run.ts'
import { parseLine } from './monitor.ts'

const PROGRAM = fileURLToPath(new URL('nodes.ts', import.meta.url))

type Verdict = {
  readonly keys: number
  readonly leftOut: number
  readonly steps: number
  readonly done: Done
  readonly rejected: { readonly property: string; readonly step: string } | null
}

test('a line of MONITOR is read to the byte', () => {
  const line = '+1700000000.000123 [0 lua] "SET" "a b" "\\x00\\xff\\\\\\"\\r\\n"'
  expect(parseLine(line)).toEqual({
    atUs: 1_700_000_000_000_123,
    inScript: true,
    words: ['SET', 'a b', '\x00\xff\\"\r\n'],
  })
})

test('each step of five real nodes is a step of the model, while one is killed, one is emptied and one is started again', async () => {
  const { rejected, done, keys, leftOut, steps } = await heldToTheModel()
  expect(rejected).toBeNull()
  // Each was met, and hardly anything was left out.
  expect(
    Object.values(done).every((count) => count > 0),
    JSON.stringify(done),
  ).toBe(true)
  expect(done.granted).toBeGreaterThan(30)
  expect(keys).toBeGreaterThan(25)
  expect(leftOut).toBeLessThan(10)
  expect(steps).toBeGreaterThan(1_000)
}, 180_000)

test.for([['release-without-owner'], ['unconditional-completion']])(
  'a run of real nodes with a broken script is not one of the model: %s',
  { timeout: 180_000 },
  async ([mutant]) => {
    const { rejected } = await heldToTheModel('--mutant', mutant ?? '')
    expect(rejected?.property).toBe('same_record')
  },
)

function heldToTheModel(...args: readonly string[]): Promise<Verdict> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [PROGRAM, ...args], (cause, stdout, stderr) => {
      const last = stdout.trimEnd().split('\n').at(-1) ?? ''
      if (last.startsWith('{')) resolve(JSON.parse(last) as Verdict)
      else reject(new Error(`no verdict: ${stderr}`, { cause }))
    })
  })
}
