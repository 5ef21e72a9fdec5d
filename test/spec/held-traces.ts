/** Runs `npm run spec -- traces` as a developer does, in a process of its own, and reads its last line. */

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'

const PROGRAM = fileURLToPath(new URL('traces.ts', import.meta.url))

type Verdict = {
  readonly steps: number
  readonly rejected: { readonly property: string; readonly step: string } | null
}

export async function areAccepted(histories: number, stepsMin: number): Promise<void> {
  const { rejected, steps } = await traces('--histories', String(histories))
  expect(rejected).toBeNull()
  expect(steps).toBeGreaterThan(stepsMin)
}

/** @param firstSeed where earlier histories break another property first */
export async function isRejected([mutant, property, firstSeed = 1]: readonly [
  mutant: string,
  property: string,
  firstSeed?: number,
]): Promise<void> {
  const { rejected } = await traces('--from', String(firstSeed), '--histories', '150', '--mutant', mutant)
  expect(rejected?.property).toBe(property)
}

function traces(...args: readonly string[]): Promise<Verdict> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [PROGRAM, ...args], (cause, stdout, stderr) => {
      const last = stdout.trimEnd().split('\n').at(-1) ?? ''
      if (last.startsWith('{')) resolve(JSON.parse(last) as Verdict)
      else reject(new Error(`no verdict: ${stderr}`, { cause }))
    })
  })
}
