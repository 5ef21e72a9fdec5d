import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { COMMANDS } from '../../src/cli/program.ts'
import { folderOfTests } from '../support/during-tests.ts'
import { startFencepost } from '../support/processes.ts'

const folder = folderOfTests('config')

function fileWith(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

/** A process as an operator starts it, with no setting but these. */
async function run(args: readonly string[], env: Record<string, string> = {}) {
  const inherited = Object.keys(process.env).filter((name) => name.startsWith('FENCEPOST_'))
  const cleared = Object.fromEntries(inherited.map((name) => [name, undefined]))
  await using fencepost = startFencepost(args, { env: { ...cleared, ...env } })
  const { code } = await fencepost.exited
  return { code, output: fencepost.output }
}

const enough = { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000' }

describe('config check', () => {
  test('config check exits with 0 for a valid configuration', async () => {
    expect(await run(['config', 'check'], enough)).toEqual({
      code: 0,
      output: 'The configuration is accepted.\n',
    })
  })

  test.each(['routes: []', 'routes: [{ name: a, match: {}, mode: bypass }]'])(
    'config check warns of a file that protects nothing: %s',
    async (file) => {
      const { code, output } = await run(['config', 'check', '--file', fileWith('none.yaml', file)], enough)
      expect([code, output]).toEqual([
        0,
        expect.stringMatching(
          /^The configuration is accepted\.\nWarning: routes: none of them protects a request/,
        ),
      ])
    },
  )

  test('config check exits with 78 and lists every error of environment and file, without secrets', async () => {
    const path = fileWith(
      'bad.yaml',
      'record: { leese: 3s }\nroutes: [{ name: a, match: {}, mode: hedder }]\n',
    )
    const { code, output } = await run(['config', 'check', '--file', path], {
      FENCEPOST_REDIS_NODES: 'redis://:secret@a,redis://b',
      FENCEPOST_LEASE: '30',
      FENCEPOST_TENNANT: 'x',
    })
    expect(code).toBe(78)
    expect(output.split('\n').filter((line) => line !== '')).toEqual([
      'The configuration has 6 errors:',
      expect.stringContaining('FENCEPOST_TENNANT: no such setting; did you mean FENCEPOST_TENANT?'),
      expect.stringContaining('record.leese: no such setting; did you mean record.lease?'),
      expect.stringContaining('FENCEPOST_REDIS_NODES: "redis://***@a,redis://b" is not accepted (2 given)'),
      expect.stringContaining('FENCEPOST_LEASE: "30" is not accepted (it has no unit)'),
      expect.stringContaining('routes[0].mode: "hedder" is not accepted'),
      expect.stringContaining('FENCEPOST_UPSTREAM: required while the proxy listens, but not set'),
    ])
  })
})

// Bug: such a file was read with other letters in the place of what it holds, and its route fitted no request: they were forwarded unprotected.
test('config check refuses a file whose text is not UTF-8', async () => {
  const path = join(folder, 'latin-1.yaml')
  const route = 'routes: [{ name: a, match: { methods: [POST], paths: ["/café"] }, mode: header }]'
  writeFileSync(path, route, 'latin1')
  expect(await run(['config', 'check', '--file', path], enough)).toEqual({
    code: 78,
    output: `The configuration has one error:\n  FENCEPOST_CONFIG: ${path}: it can't be read: it is not text in UTF-8; save it in UTF-8\n`,
  })
})

test('serve refuses what check refuses, with the same words', async () => {
  const env = { FENCEPOST_UPSTREAM: 'localhost', FENCEPOST_LEASE: '30' }
  const checked = await run(['config', 'check'], env)
  expect(checked.code).toBe(78)
  expect(await run(['serve'], env)).toEqual(checked)
})

describe('config print', () => {
  const env = { FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000', FENCEPOST_LEASE: '10s' }
  const path = fileWith(
    'good.yaml',
    'redis: { nodes: ["redis://:secret@a", "redis://u:secret@b", "redis://c"] }\nroutes: [{ name: all, match: {}, mode: header }]\n',
  )

  test('config print shows every value with its origin, and no secret', async () => {
    const { code, output } = await run(['config', 'print'], { ...env, FENCEPOST_CONFIG: path })
    expect(code).toBe(0)
    expect(output).toMatch(/^FENCEPOST_LEASE +environment +10s$/m)
    expect(output).toMatch(
      /^FENCEPOST_REDIS_NODES +file +redis:\/\/:\*\*\*@a:6379,redis:\/\/u:\*\*\*@b:6379,redis:\/\/c:6379$/m,
    )
    expect(output).toMatch(/^FENCEPOST_CLAIM_BUDGET +default +100ms$/m)
    expect(output).toMatch(/^FENCEPOST_API_TOKEN_FILE +default +\(not set\)$/m)
    expect(output).toMatch(/^ {2}- name: all$/m)
    expect(output).not.toContain('secret')
  })

  test('config print --json prints JSON', async () => {
    const { code, output } = await run(['config', 'print', '--json', '--file', path], env)
    expect(code).toBe(0)
    const { settings, routes } = JSON.parse(output)
    expect(settings).toContainEqual({
      name: 'FENCEPOST_LEASE',
      path: 'record.lease',
      value: '10s',
      origin: 'environment',
    })
    expect(routes).toMatchObject({ origin: 'file', routes: [{ name: 'all', mode: 'header', lease: '10s' }] })
    expect(output).not.toContain('secret')
  })

  test('config print refuses what config check refuses', async () => {
    expect(await run(['config', 'print'])).toMatchObject({ code: 78 })
  })
})

test('config schema prints JSON', async () => {
  const { code, output } = await run(['config', 'schema'])
  expect(code).toBe(0)
  expect(JSON.parse(output)).toMatchObject({ title: 'fencepost configuration file' })
})

describe('the command line', () => {
  test.each<[args: string[], code: number, output: RegExp]>([
    [['--version'], 0, new RegExp(`^${manifest.version.replaceAll('.', '\\.')}\n$`)],
    [['--help'], 0, /^Usage: fencepost /],
    [['config', '--help'], 0, /^Usage: fencepost config /],
    [[], 64, /^Usage: fencepost /],
    [['confg'], 64, /unknown command 'confg'\n\(Did you mean config\?\)/],
    [['config', 'chek'], 64, /unknown command 'chek'\n\(Did you mean check\?\)/],
    [['config', 'check', '--fil'], 64, /unknown option '--fil'/],
    [['__proto__'], 64, /unknown command '__proto__'/],
  ])('%j', async (args, code, output) => {
    const ended = await run(args)
    expect(ended.output).toMatch(output)
    expect(ended.code).toBe(code)
  })

  test('--help lists every command', async () => {
    const { output } = await run(['--help'])
    for (const name of Object.keys(COMMANDS)) expect(output).toMatch(new RegExp(`^  ${name} `, 'm'))
  })
})
