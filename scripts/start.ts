/**
 * One command for each group of programs: `npm run bench -- NAME [options]`, and so for `generate`, `spec` and
 * `campaign`. Without a name it runs the group's default programs, or lists all where it has none.
 *
 * Owns the names. The comment at the head of each file describes the program and its options: `npm run bench -- NAME --help`
 * shows it, the list its first sentence.
 *
 * Usage: node scripts/run.mjs scripts/start.ts GROUP [NAME] [options…]
 */
import { spawn } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { basename, join } from 'node:path'
import { asksForHelp, headComment } from './head-comment.mjs'

const root = join(import.meta.dirname, '..')

export type Group = {
  /** From the name to the file. */
  readonly programs: Readonly<Record<string, string>>
  /** Run where no name is given. */
  readonly usual: readonly string[]
}

export const GROUPS: Readonly<Record<string, Group>> = {
  bench: {
    programs: Object.fromEntries(
      globSync('bench/*.ts', { cwd: root })
        .sort()
        .map((file) => [basename(file, '.ts'), file]),
    ),
    usual: [],
  },
  generate: {
    programs: {
      settings: 'scripts/config-reference.ts',
      commands: 'scripts/cli-reference.ts',
      'chart-settings': 'scripts/chart-settings.ts',
      charts: 'scripts/chart-readme.ts',
      dashboards: 'dashboards/grafana.ts',
      pictures: 'scripts/draw-dashboards.ts',
      screenshots: 'scripts/screenshots.ts',
      incidents: 'scripts/incidents.ts',
      sbom: 'scripts/sbom.ts',
    },
    // The files that tests compare with their sources; written in seconds.
    usual: ['settings', 'commands', 'chart-settings', 'charts', 'dashboards'],
  },
  spec: {
    programs: { searches: 'test/spec/main.ts', traces: 'test/spec/traces.ts', nodes: 'test/spec/nodes.ts' },
    usual: ['searches'],
  },
  campaign: {
    programs: {
      apiserver: 'test/apiserver/main.ts',
      checkout: 'examples/checkout/run.ts',
      exhaustion: 'test/exhaustion/main.ts',
      fuzz: 'test/fuzz/main.ts',
      'order-saga': 'examples/order-saga/run.ts',
      rolling: 'test/rolling/main.ts',
      traefik: 'test/http/gateway/traefik.ts',
    },
    usual: [],
  },
  release: {
    programs: {
      audit: 'scripts/audit.ts',
      'dry-run': 'scripts/dry-run/main.ts',
      pack: 'scripts/pack.ts',
      charts: 'scripts/charts.ts',
      image: 'scripts/image.ts',
      newcomer: 'scripts/newcomer.ts',
      version: 'scripts/version.ts',
    },
    usual: [],
  },
}

async function main([groupName = '', ...rest]: readonly string[]): Promise<number> {
  const group = GROUPS[groupName]
  if (group === undefined) {
    console.error(`usage: scripts/start.ts ${Object.keys(GROUPS).join('|')} [NAME] [options…]`)
    return 2
  }
  const [first] = rest
  const isNamed = first !== undefined && !first.startsWith('-')
  if (isNamed && !(first in group.programs)) {
    console.error(`${groupName} has no program "${first}"\n\n${listOf(groupName, group)}`)
    return 2
  }
  if (asksForHelp(rest)) {
    const help = isNamed ? headComment(sourceOf(group, first)) : listOf(groupName, group)
    console.log(help)
    return 0
  }
  const names = isNamed ? [first] : group.usual
  if (names.length === 0) console.log(listOf(groupName, group))
  for (const name of names) {
    const code = await run(group.programs[name] as string, isNamed ? rest.slice(1) : rest)
    if (code !== 0) return code
  }
  return 0
}

function sourceOf({ programs }: Group, name: string): string {
  return readFileSync(join(root, programs[name] as string), 'utf8')
}

function listOf(groupName: string, group: Group): string {
  const { programs, usual } = group
  const width = Math.max(...Object.keys(programs).map((name) => name.length))
  const rows = Object.keys(programs).map(
    (name) => `  ${name.padEnd(width)}  ${firstSentence(sourceOf(group, name))}`,
  )
  const without = usual.length === 0 ? '' : `\n\nwithout a name: ${usual.join(', ')}`
  return `npm run ${groupName} -- NAME [options]\n\n${rows.join('\n')}${without}`
}

/** Of the comment at the head of a file, without the command that it may begin with. */
export function firstSentence(source: string): string {
  const text = headComment(source).replaceAll('\n', ' ')
  const [sentence = ''] = text.replace(/^`npm run [^`]*`[:,] /, '').split(/(?<=[.:;]) /, 1)
  return sentence.replace(/[.:;]$/, '').replace(/^./, (letter) => letter.toUpperCase())
}

function run(file: string, args: readonly string[]): Promise<number> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(root, file), ...args], { cwd: root, stdio: 'inherit' })
    // As in run.mjs: the terminal sends Ctrl-C to the whole group, a supervisor sends SIGTERM to one process.
    const ignore = () => {}
    const passOn = () => child.kill('SIGTERM')
    process.on('SIGINT', ignore).on('SIGTERM', passOn)
    child.once('error', (error) => {
      console.error(`${file} could not be started: ${error.message}`)
      resolve(1)
    })
    child.once('exit', (code, signal) => {
      process.off('SIGINT', ignore).off('SIGTERM', passOn)
      resolve(code ?? 128 + constants.signals[signal as NodeJS.Signals])
    })
  })
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2))
