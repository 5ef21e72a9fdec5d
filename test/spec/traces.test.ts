/** The code and the specification are held together: what nodes carried out and claimants concluded is what the model says. */

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const PROGRAM = fileURLToPath(new URL('traces.ts', import.meta.url))

type Verdict = {
  readonly steps: number
  readonly rejected: { readonly property: string; readonly step: string } | null
}

test('each step of a hundred simulated histories is a step of the model', async () => {
  const { rejected, steps } = await traces('--histories', '100')
  expect(rejected).toBeNull()
  expect(steps).toBeGreaterThan(5_000)
}, 300_000)

describe('a history of a broken build is not one of the model:', () => {
  test.for([
    ['renew-past-larger-fence', 'same_answer'],
    ['release-without-owner', 'same_answer'],
    ['release-forgets-fence', 'same_record'],
    ['release-forgets-attempt', 'same_record'],
    ['claim-below-fence', 'same_answer'],
    ['claim-over-live-lease', 'same_answer'],
    ['attempt-not-counted', 'same_attempt'],
    ['mismatch-ignored', 'same_answer'],
    ['minority-outcome-shown', 'shown_is_chosen'],
    ['quorum-of-two', 'granted_by_majority'],
    ['quarantined-answers-count', 'granted_by_majority'],
  ])('%s (%s)', { timeout: 300_000 }, async ([mutant, property]) => {
    const { rejected } = await traces('--histories', '150', '--mutant', mutant ?? '')
    expect(rejected?.property).toBe(property)
  })
})

function traces(...args: readonly string[]): Promise<Verdict> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [PROGRAM, ...args], (cause, stdout, stderr) => {
      const last = stdout.trimEnd().split('\n').at(-1) ?? ''
      if (last.startsWith('{')) resolve(JSON.parse(last) as Verdict)
      else reject(new Error(`no verdict: ${stderr}`, { cause }))
    })
  })
}
