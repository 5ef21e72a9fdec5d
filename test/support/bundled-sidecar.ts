/**
 * Once for a run of the tests, before the first: the sidecar as one program. It is kept under a name of its content, because Node
 * keeps what it has compiled by the name of the file, and most runs change nothing of it. Which content is made of which sources
 * is written beside it: where they are as they were, nothing is made.
 */
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
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
  mkdirSync(all, { recursive: true })
  const note = join(all, `made-of-${hashOf(sources(), root)}`)
  const known = existsSync(note) ? join(all, readFileSync(note, 'utf8')) : undefined
  if (known !== undefined && existsSync(join(known, 'dist/main.js'))) {
    for (const path of [note, known]) utimesSync(path, new Date(), new Date())
    return join(known, 'dist/main.js')
  }
  const folder = await bundledFolder()
  writeFileSync(note, basename(folder))
  return join(folder, 'dist/main.js')
}

/** All that the program is made of. The lock file stands for the packages. */
function sources(): readonly string[] {
  const files = globSync('{src,packages/*/src}/**/*.*', { cwd: root })
  const makers = ['scripts/bundle.ts', 'scripts/undici-pool.mjs', 'package.json', 'package-lock.json']
  return [...files, ...globSync('packages/*/package.json', { cwd: root }), ...makers]
}

/** Made anew. */
async function bundledFolder(): Promise<string> {
  const made = join(all, `made-by-${process.pid}`)
  mkdirSync(made, { recursive: true })
  copyFileSync(join(root, 'package.json'), join(made, 'package.json'))
  await bundleSidecar(join(made, 'dist'))
  // Of every file in the folder: of the Lua scripts too, which the program only reads.
  const folder = join(all, hashOf(globSync('**/*.*', { cwd: made }), made))
  try {
    renameSync(made, folder)
  } catch {
    // It is there already.
    rmSync(made, { recursive: true })
    utimesSync(folder, new Date(), new Date())
  }
  return folder
}

function hashOf(files: readonly string[], folder: string): string {
  const hash = createHash('sha256')
  for (const file of files.toSorted()) hash.update(`${file}\n`).update(readFileSync(join(folder, file)))
  return hash.digest('hex').slice(0, 16)
}
