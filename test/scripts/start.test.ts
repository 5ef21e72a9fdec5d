/** The commands of the repository: what `npm run` lists, what each group has, and what pages and comments name. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { firstSentence, GROUPS } from '../../scripts/start.ts'
import { TestProcess } from '../support/processes.ts'

const root = join(import.meta.dirname, '../..')
const scripts: Readonly<Record<string, string>> = manifest.scripts

async function start(...args: string[]) {
  await using child = new TestProcess(process.execPath, ['scripts/start.ts', ...args], { cwd: root })
  return { ...(await child.exited), output: child.output }
}

// Bug: the machine's own Node, which may be 20, strips no types. `npm run` brings the one of the repository.
test('no page has a program of TypeScript started by the Node of its reader', () => {
  const wrong = trackedTexts().flatMap(({ file, text }) =>
    file.endsWith('.md')
      ? (text.match(/(?<=`|^ {4})node [\w./-]+\.ts\b/gm) ?? []).map((one) => `${file}: ${one}`)
      : [],
  )
  expect(wrong).toEqual([])
})

test('every file that a command starts exists', () => {
  const started = Object.values(scripts).flatMap((line) => line.match(/\S+\.(ts|mjs)\b/g) ?? [])
  const grouped = Object.values(GROUPS).flatMap(({ programs }) => Object.values(programs))
  expect([...started, ...grouped].filter((file) => !existsSync(join(root, file)))).toEqual([])
})

test('each group is a command of that name, and runs programs of its own where no name is given', () => {
  for (const [name, { programs, usual }] of Object.entries(GROUPS)) {
    expect(scripts[name]).toBe(`node scripts/run.mjs scripts/start.ts ${name}`)
    expect(usual.filter((program) => !(program in programs))).toEqual([])
  }
})

test('without a name a group of benchmarks lists each program with the first sentence of its file', async () => {
  const { code, output } = await start('bench')
  expect(code).toBe(0)
  for (const name of Object.keys(GROUPS.bench?.programs ?? {}))
    expect(output).toMatch(new RegExp(`^ {2}${name} +[A-Z].{10,}$`, 'm'))
})

test('an unknown name is an error that lists the names of the group', async () => {
  const { code, output } = await start('campaign', 'roling')
  expect(code).toBe(2)
  expect(output).toMatch(/campaign has no program "roling"[\s\S]*\n {2}rolling /)
})

test('an unknown group is an error that names the groups', async () => {
  const { code, output } = await start('benches')
  expect(code).toBe(2)
  expect(output).toMatch(/^usage: .*bench\|generate\|spec\|campaign/)
})

test('the options of a program reach it, and its exit code is that of the command', async () => {
  const { code, output } = await start('spec', 'traces', '--no-such-option')
  expect(code).toBe(1)
  expect(output).toMatch(/Unknown option '--no-such-option'/)
})

test('asked for help, a program shows the comment at its head, and a group lists its programs', async () => {
  const program = await start('spec', 'nodes', '--help')
  expect(program.code).toBe(0)
  expect(program.output).toMatch(/^`npm run spec -- nodes`/)
  const group = await start('spec', '--help')
  expect(group.code).toBe(0)
  expect(group.output).toMatch(/^npm run spec -- NAME[\s\S]*\n {2}nodes /)
})

test.each([
  ['/** What it does: in some way. More. */', 'What it does'],
  ['/**\n * `npm run spec -- nodes`: one run on\n * real nodes; and more.\n */', 'One run on real nodes'],
  ['// No comment for pages.', ''],
])('the first sentence of %j is %j', (source, sentence) => {
  expect(firstSentence(source)).toBe(sentence)
})

test('every command that a tracked text names exists', () => {
  const wrong = trackedTexts().flatMap(({ file, text }) =>
    [...text.matchAll(/\bnpm run (?:--silent )?([a-z][\w:-]*)(?: -- ([a-z][\w-]*))?/g)]
      .filter(([, script = '', name]) => {
        if (!(script in scripts)) return true
        return name !== undefined && script in GROUPS && !(name in (GROUPS[script]?.programs ?? {}))
      })
      .map(([command]) => `${file}: ${command}`),
  )
  expect(wrong).toEqual([])
})

test('every file of tests that a command of a tracked text names exists', () => {
  const wrong = trackedTexts().flatMap(({ file, text }) =>
    [...text.matchAll(/\bnpm test -- (test\/[\w./-]*\w)/g)]
      .filter(([, path = '']) => !existsSync(join(root, path)))
      .map(([command]) => `${file}: ${command}`),
  )
  expect(wrong).toEqual([])
})

/** Line breaks are blanks, so that a command that a comment or a paragraph breaks in two is read, too. */
function trackedTexts(): { file: string; text: string }[] {
  const files = globSync(
    ['*', '{.ci,bench,dashboards,deploy,docs,examples,packages,scripts,spec,src,test}/**/*'],
    {
      cwd: root,
      withFileTypes: true,
      exclude: ({ name }) => ['node_modules', 'dist', 'results', 'target'].includes(name),
    },
  ).filter((entry) => entry.isFile() && !/\.(svg|json)$/.test(entry.name))
  return files.map(({ parentPath, name }) => ({
    file: join(parentPath, name).slice(root.length + 1),
    text: readFileSync(join(parentPath, name), 'utf8').replaceAll(/\n\s*(?:\*|#|\/\/|>)?\s*/g, ' '),
  }))
}
