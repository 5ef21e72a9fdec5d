/**
 * Which files of tests reach a module by what they import of the repository's tests: so `vitest.config.ts` tells those that start
 * processes, which wait for them and fail where they get no processor, from those that compute.
 */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { importsOf } from './source-text.ts'

export const STARTS_PROCESSES = ['node:child_process', 'node:worker_threads', 'playwright-core']

/** Code for tests: what the product itself imports says nothing of them. */
const FOLDERS = /^(test|examples|scripts|bench)\//

export function filesThatReach(root: string, pattern: string, modules: readonly string[]): string[] {
  const known = new Map<string, boolean>()
  const reaches = (file: string): boolean => {
    if (!known.has(file)) {
      // What a circle of imports finds, on its way.
      known.set(file, false)
      known.set(
        file,
        FOLDERS.test(file) &&
          importedBy(join(root, file)).some(
            ({ specifier }) =>
              modules.includes(specifier) ||
              (specifier.startsWith('.') && reaches(join(dirname(file), specifier))),
          ),
      )
    }
    return known.get(file) === true
  }
  return globSync(pattern, { cwd: root, exclude: ['**/node_modules/**'] })
    .filter(reaches)
    .sort()
}

/** A text in a test may look like an import, of a file that there is not. */
function importedBy(path: string) {
  return existsSync(path) ? importsOf(readFileSync(path, 'utf8')).filter(({ typeOnly }) => !typeOnly) : []
}
