/**
 * Once for a run of the tests, before the first: the sidecar as one program. It is kept under a name of its content, because Node
 * keeps what it has compiled by the name of the file, and most runs change nothing of it.
 */
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { bundleSidecar } from '../../scripts/bundle.ts'

const root = join(import.meta.dirname, '../..')
const all = join(root, '.tmp/sidecars')
const keptMs = 24 * 60 * 60_000

export default async function setup(project: TestProject): Promise<void> {
  // Every project of the run asks for it.
  if (process.env.TESTED_SIDECAR !== undefined) return
  process.env.TESTED_SIDECAR = await treeSidecar()
  project.onTestsRerun(async () => {
    process.env.TESTED_SIDECAR = await treeSidecar()
  })
  for (const name of readdirSync(all)) {
    const folder = join(all, name)
    if (statSync(folder).mtimeMs < Date.now() - keptMs) rmSync(folder, { recursive: true, force: true })
  }
}

/** @returns the main program of the bundle */
export async function treeSidecar(): Promise<string> {
  const made = join(all, `made-by-${process.pid}`)
  mkdirSync(made, { recursive: true })
  copyFileSync(join(root, 'package.json'), join(made, 'package.json'))
  await bundleSidecar(join(made, 'dist'))
  const folder = join(all, contentOf(made))
  try {
    renameSync(made, folder)
  } catch {
    // It is there already.
    rmSync(made, { recursive: true })
    utimesSync(folder, new Date(), new Date())
  }
  return join(folder, 'dist/main.js')
}

/** Of every file in the folder: of the Lua scripts too, which the program only reads. */
function contentOf(folder: string): string {
  const hash = createHash('sha256')
  for (const file of globSync('**/*.*', { cwd: folder }).sort())
    hash.update(`${file}\n`).update(readFileSync(join(folder, file)))
  return hash.digest('hex').slice(0, 16)
}
