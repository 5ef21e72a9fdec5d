/** docs/internals/requirements.md names files, tests and commands that exist. Whether a requirement is met, the named tests show. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { GROUPS } from '../scripts/start.ts'

const root = join(import.meta.dirname, '..')
const page = readFileSync(join(root, 'docs/internals/requirements.md'), 'utf8')

type Row = {
  readonly requirement: string
  readonly files: readonly string[]
  readonly shown: readonly string[]
}

/** A cell may have a bar of its own, written `\|`. */
const rows = page.split('\n').flatMap((line): Row[] => {
  const [, requirement = '', where = '', shown = ''] = line.split(/(?<!\\)\|/).map((cell) => cell.trim())
  if (!line.startsWith('| ') || requirement === 'requirement') return []
  const files = [...where.matchAll(/`([^`]+)`/g)].map(([, file]) => file as string)
  return [{ requirement, files, shown: shown.replaceAll('\\|', '|').split('<br>') }]
})

test('each requirement stands there once, with a place and a proof', () => {
  expect(rows.length).toBeGreaterThan(135)
  expect(new Set(rows.map(({ requirement }) => requirement)).size).toBe(rows.length)
  expect(rows.filter(({ files, shown }) => files.length === 0 || shown.length === 0)).toEqual([])
})

test('each place is a file of the repository', () => {
  const named = rows.flatMap(({ files }) => files)
  expect(named.filter((file) => !existsSync(join(root, file)))).toEqual([])
})

test('a proof that is no `*.test.ts` is a suite, which one beside it imports', () => {
  const suites = rows
    .flatMap(({ shown }) => shown)
    .map((proof) => /^`([^`]+)`: /.exec(proof)?.[1] ?? '')
    .filter((file) => file !== '' && !file.endsWith('.test.ts'))
  expect(suites.length).toBeGreaterThan(0)
  const isImported = (file: string) =>
    globSync(join(root, dirname(file), '*.test.ts')).some((test) =>
      readFileSync(test, 'utf8').includes(`'./${basename(file)}'`),
    )
  expect(suites.filter((file) => !isImported(file))).toEqual([])
})

describe.each(rows)('$requirement', ({ shown }) => {
  test.each(shown)('%s', (proof) => {
    const command = /^`npm run ([^`]+)`$/.exec(proof)
    if (command !== null) {
      expect(commands).toContain((command[1] ?? '').replace(/ -- (?:--.*)?/, ' ').trim())
      return
    }
    const [, file = '', title = ''] = /^`([^`]+)`: (.+)$/.exec(proof) ?? []
    expect(titlesOf(file)).toContain(title)
  })
})

/** `simulate`, `bench locks`: a script of package.json, or a program of its group (`scripts/start.ts`). */
const commands = [
  ...Object.keys(
    (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object }).scripts,
  ),
  ...Object.entries(GROUPS).flatMap(([group, { programs }]) =>
    Object.keys(programs).map((name) => `${group} ${name}`),
  ),
]

const known = new Map<string, readonly string[]>()

/** Every string of the file that follows `test(` or `describe(`, or the table of one of them. */
function titlesOf(file: string): readonly string[] {
  const found = known.get(file) ?? titlesIn(readFileSync(join(root, file), 'utf8'))
  known.set(file, found)
  return found
}

function titlesIn(source: string): readonly string[] {
  const titles = source.matchAll(
    /(?:\b(?:test|describe)\(|\)\()\s*(?:'((?:\\.|[^'\\\n])+)'|`((?:\\.|[^`\\])+)`)/g,
  )
  return [...titles].map(([, quoted, template]) => (quoted ?? template ?? '').replaceAll(/\\(.)/g, '$1'))
}
