/** The environment that the image gives its program, as the Dockerfile says. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const DOCKERFILE = join(import.meta.dirname, '../../Dockerfile')

export function imageEnvironment(): Readonly<Record<string, string>> {
  const joined = readFileSync(DOCKERFILE, 'utf8').replaceAll('\\\n', ' ')
  const [, assignments] = /^ENV (.*)$/m.exec(joined) ?? []
  if (assignments === undefined) throw new Error('the Dockerfile has no ENV line')
  return Object.fromEntries(
    assignments
      .trim()
      .split(/\s+/)
      .map((assignment) => {
        const [, name, value] = /^(\w+)="?([^"]*)"?$/.exec(assignment) ?? []
        if (name === undefined || value === undefined) throw new Error(`${assignment} is no assignment`)
        return [name, value]
      }),
  )
}
