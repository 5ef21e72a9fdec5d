/**
 * Places what the image holds beside Node into one folder, the same bytes, modes and times each time: the program, its manifest, its
 * licence and its bill of materials. The Dockerfile runs it in its first stage.
 *
 * Owns why two builds of one commit have one digest. The file system would state when and under which umask each file was written: all
 * files get the time of SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/), and modes that depend on nothing.
 *
 * Usage: node scripts/image-files.ts FOLDER
 */
import { chmodSync, copyFileSync, lutimesSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bundleSidecar } from './bundle.ts'
import { billOfMaterials } from './sbom.ts'

const root = join(import.meta.dirname, '..')
/** Started by their names. */
const PROGRAMS = ['dist/main.js', 'dist/fencepost.cjs']

/** @param epochSeconds of every file and folder, in seconds since 1970 */
export async function placeImageFiles(folder: string, epochSeconds: number): Promise<void> {
  // Source maps name the sources relative to dist/ of the repository, wherever the folder is.
  await bundleSidecar(join(folder, 'dist'), join(root, 'dist'))
  for (const file of ['package.json', 'LICENSE']) copyFileSync(join(root, file), join(folder, file))
  const bill = JSON.stringify(billOfMaterials(epochSeconds), undefined, 2)
  writeFileSync(join(folder, 'sbom.cdx.json'), `${bill}\n`)
  normalise(folder, epochSeconds)
}

function normalise(folder: string, epochSeconds: number): void {
  const programs = new Set(PROGRAMS.map((program) => join(folder, program)))
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    chmodSync(path, entry.isDirectory() || programs.has(path) ? 0o755 : 0o644)
    lutimesSync(path, epochSeconds, epochSeconds)
  }
  chmodSync(folder, 0o755)
  lutimesSync(folder, epochSeconds, epochSeconds)
}

/** @throws where SOURCE_DATE_EPOCH is no whole number of seconds; 0 where it is not set */
export function epochOf(env: Readonly<Record<string, string | undefined>>): number {
  const given = env.SOURCE_DATE_EPOCH ?? ''
  if (!/^\d{0,12}$/.test(given))
    throw new Error(
      `SOURCE_DATE_EPOCH is ${given}; it is a number of seconds since 1970 with at most 12 digits: git log -1 --format=%ct`,
    )
  return Number(given)
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2)
  if (folder === undefined) throw new Error('usage: node scripts/image-files.ts FOLDER')
  await placeImageFiles(folder, epochOf(process.env))
}
