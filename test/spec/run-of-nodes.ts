/** Runs `npm run spec -- nodes` as a developer does, in a process of its own, and reads its last line. */

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Done } from './fault-run.ts'

const PROGRAM = fileURLToPath(new URL('nodes.ts', import.meta.url))

type Verdict = {
  readonly keys: number
  readonly leftOut: number
  readonly steps: number
  readonly done: Done
  readonly rejected: { readonly property: string; readonly step: string } | null
}

export function heldToTheModel(...args: readonly string[]): Promise<Verdict> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [PROGRAM, ...args], (cause, stdout, stderr) => {
      const last = stdout.trimEnd().split('\n').at(-1) ?? ''
      if (last.startsWith('{')) resolve(JSON.parse(last) as Verdict)
      else reject(new Error(`no verdict: ${stderr}`, { cause }))
    })
  })
}
