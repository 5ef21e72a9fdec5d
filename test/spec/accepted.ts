/** Has Spin take the steps of a recorded history, and returns the first that is not a step of the model. */

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { requireProgram } from '../support/programs.ts'
import { inFolderOfItsOwn, run } from './spin.ts'

export type Rejected = { readonly number: number; readonly property: string; readonly step: string }

/** Undefined: every step is one of the model. */
export async function rejectedOf(lines: readonly string[], nodeCount: number): Promise<Rejected | undefined> {
  const said = await inFolderOfItsOwn(async (folder) => {
    await writeFile(join(folder, 'steps.pml'), lines.join('\n'))
    return run(requireProgram('spin'), [`-DN=${nodeCount}`, '-T', 'trace.pml'], folder)
  })
  if (said.includes('accepted: every step is one of the model')) return undefined
  const property = /text of failed assertion: assert\((\w+)\)/.exec(said)?.[1] ?? 'none: the model stopped'
  const number = Number(/step (\d+) /.exec(said)?.[1] ?? 0)
  return { number, property, step: lines[number - 1] ?? said.slice(-500) }
}
