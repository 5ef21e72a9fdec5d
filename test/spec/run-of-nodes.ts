/** Runs `npm run spec -- nodes` as a developer does, in a process of its own, and reads its last line. */

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Done } from './fault-run.ts'

const PROGRAM = fileURLToPath(new URL('nodes.ts', import.meta.url))

/**
 * Ten times what a run takes. Node itself may spin for ever while it ends, all work done and the verdict written
 * (Environment::CleanupHandles; github.com/nodejs/node/issues/47748): the verdict counts, and no process is left behind.
 */
const END_WITHIN_MS = 120_000

type Verdict = {
  readonly keys: number
  readonly leftOut: number
  readonly steps: number
  readonly done: Done
  readonly rejected: { readonly property: string; readonly step: string } | null
}

export function heldToTheModel(...args: readonly string[]): Promise<Verdict> {
  return new Promise((resolve, reject) => {
    const bounds = { timeout: END_WITHIN_MS, killSignal: 'SIGKILL' } as const
    execFile(process.execPath, [PROGRAM, ...args], bounds, (cause, stdout, stderr) => {
      const last = stdout.trimEnd().split('\n').at(-1) ?? ''
      if (last.startsWith('{')) resolve(JSON.parse(last) as Verdict)
      else reject(new Error(`no verdict: ${stderr}`, { cause }))
    })
  })
}
