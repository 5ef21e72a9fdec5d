/**
 * Writes docs/reference/cli.md from the `--help` of the commands.
 *
 * A test compares the file with what this makes: after a change of a command run `npm run generate -- commands`.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { fencepostSaga } from '../packages/saga/src/command/command.ts'
import type { Io } from '../src/cli/command.ts'
import { COMMANDS, program } from '../src/cli/program.ts'

const INTRODUCTION = `You run these commands with the settings of the sidecar ([configuration.md](configuration.md)), so the simplest place is its pod. The
image has neither a shell nor a \`fencepost\` on its path:

\`\`\`
kubectl exec POD --container fencepost -- /nodejs/bin/node /app/dist/main.js nodes status
\`\`\`

In a clone of the repository a command is \`node scripts/run.mjs src/main.ts nodes status\`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | it failed, or what it checked is not well |
| 64 | the command line is not accepted, or a decision is not confirmed |
| 69 | too few nodes, or a sidecar that did not answer |
| 78 | the configuration is not accepted; every error is printed |`

export async function commandReference(): Promise<string> {
  const sections = []
  for (const [name, { summary }] of Object.entries(COMMANDS))
    sections.push(`## ${name}`, `${capital(summary)}.`, ...(await helpOf([name])))
  return [
    '# Commands',
    '<!-- Written by `npm run generate -- commands` from src/cli; do not edit by hand. -->',
    INTRODUCTION,
    ...sections,
    '## fencepost-saga',
    'The command of the saga kit: `npx fencepost-saga`, where `@fencepost/saga` and `pg` are installed. It needs the database, and no sidecar.',
    ...(await helpOfSagas()),
  ]
    .join('\n\n')
    .concat('\n')
}

/** The help of a command, and of those below it. */
async function helpOf(path: readonly string[]): Promise<string[]> {
  const text = await outputOf([...path, '--help'])
  const listed = /^Commands:\n((?: {2}.*\n?)+)/m.exec(text)?.[1] ?? ''
  const below = [...listed.matchAll(/^ {2}([a-z][\w-]*)/gm)].map(([, name = '']) => name)
  const pages = [`\`\`\`\n${text.trim()}\n\`\`\``]
  for (const name of below.filter((one) => one !== 'help')) pages.push(...(await helpOf([...path, name])))
  return pages
}

/** The commands by the list of all of them, and what each takes. */
async function helpOfSagas(): Promise<string[]> {
  const all = await outputOfSagas(['--help'])
  const names = [...all.matchAll(/^ {2}((?:[a-z]+(?:-[a-z]+)*)(?: [a-z]+)?)(?: <[^>]+>)? {2}/gm)].map(
    ([, name = '']) => name,
  )
  const pages = await Promise.all(names.map((name) => outputOfSagas([...name.split(' '), '--help'])))
  const own = pages.map((page) => page.split('\n\n').slice(0, -1).join('\n\n'))
  return [all.trim(), own.join('\n\n')].map((text) => `\`\`\`\n${text}\n\`\`\``)
}

async function outputOfSagas(args: readonly string[]): Promise<string> {
  const parts: string[] = []
  const stdout = { write: (text: string) => void parts.push(text) }
  await fencepostSaga(args, { env: {}, stdout, stderr: stdout, readFile: () => '', stopped: async () => {} })
  return parts.join('')
}

async function outputOf(args: readonly string[]): Promise<string> {
  let text = ''
  const stdout = new Writable({
    write: (chunk, _encoding, done) => {
      text += String(chunk)
      done()
    },
  })
  const io: Io = {
    env: {},
    stdout,
    logTo: stdout,
    stderr: stdout,
    readFile: () => '',
    readBytes: () => Buffer.alloc(0),
    signals: { onStop: () => () => {}, onLeave: () => {} },
    version: '',
    nodeVersion: '',
    oldestNode: '',
    nodeOptions: [],
    hostname: '',
    leaveOpen: () => {},
    onParentMessage: () => {},
  }
  await program(args, io)
  return text
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}

if (import.meta.main) {
  // Help is broken into lines for the terminal that it is shown in; the page has no terminal.
  process.stdout.isTTY = false
  const page = join(import.meta.dirname, '../docs/reference/cli.md')
  writeFileSync(page, await commandReference())
}
