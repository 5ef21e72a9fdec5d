/** What a folder holds, as one line for each file and folder in it, itself included: path, mode, time in seconds, hash. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'

export function contentOf(place: string): readonly string[] {
  const paths = [place, ...readdirSync(place, { recursive: true }).map((name) => join(place, String(name)))]
  return paths.sort().map((path) => {
    const { mode, mtimeMs } = statSync(path)
    const hash = statSync(path).isFile()
      ? createHash('sha256').update(readFileSync(path)).digest('hex')
      : 'folder'
    return [relative(place, path), (mode & 0o777).toString(8), mtimeMs / 1_000, hash].join(' ')
  })
}
