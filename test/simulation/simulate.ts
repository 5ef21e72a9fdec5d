/** Runs `npm run simulate` as a developer does, in a process of its own, and reads its last line. */

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('main.ts', import.meta.url))

export type Simulated = {
  readonly stdout: string
  readonly stderr: string
  readonly last: Readonly<Record<string, unknown>>
}

export function simulate(...args: readonly string[]): Promise<Simulated> {
  return new Promise((resolve, reject) => {
    execFile(
      process.execPath,
      [PROGRAM, ...args],
      { maxBuffer: 16 * 1024 * 1024 },
      (cause, stdout, stderr) => {
        const last = stdout.trimEnd().split('\n').at(-1) ?? ''
        if (last.startsWith('{'))
          resolve({ stdout, stderr, last: JSON.parse(last) as Record<string, unknown> })
        else reject(new Error(`no verdict: ${stderr}`, { cause }))
      },
    )
  })
}
