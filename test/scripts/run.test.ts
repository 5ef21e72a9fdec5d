/** scripts/run.mjs in front of small programs. Every fresh clone exercises the installation itself. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { TestProcess } from '../support/processes.ts'

async function running(source: string, ...args: string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-run-'))
  const program = join(folder, 'program.ts')
  await writeFile(program, source)
  const child = new TestProcess(process.execPath, ['scripts/run.mjs', program, ...args])
  return {
    child,
    async [Symbol.asyncDispose]() {
      await child.end()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

test('the program gets its arguments and the pinned Node first on its PATH', async () => {
  await using run = await running(
    `import { execFileSync } from 'node:child_process'
     const found: string = execFileSync('node', ['-p', 'process.version'], { encoding: 'utf8' })
     console.log(process.argv.slice(2).join(' '), found.trim() === process.version)`,
    'one',
    '--two',
  )
  expect(await run.child.exited).toEqual({ code: 0, signal: null })
  expect(run.child.output.trim()).toBe('one --two true')
})

test('its exit code is ours', async () => {
  await using run = await running('process.exit(78)')
  expect(await run.child.exited).toEqual({ code: 78, signal: null })
})

test('a SIGTERM to us alone is passed on, and the program ends in its own way', async () => {
  await using run = await running(
    `process.on('SIGTERM', () => { console.log('draining'); process.exit(0) })
     console.log('up'); setInterval(() => {}, 1000)`,
  )
  await run.child.line(/up/)
  expect(await run.child.end()).toEqual({ code: 0, signal: null })
  expect(run.child.output).toMatch(/draining/)
})

test('a program ended by a signal is reported as the shell does', async () => {
  await using run = await running(`process.kill(process.pid, 'SIGKILL')`)
  expect(await run.child.exited).toEqual({ code: 137, signal: null })
})

test('without a program it prints its usage', async () => {
  await using run = new TestProcess(process.execPath, ['scripts/run.mjs'])
  expect(await run.exited).toEqual({ code: 2, signal: null })
  expect(run.output).toMatch(/^usage: /)
})

test('asked for help it shows the comment at the head of the program, and starts nothing', async () => {
  await using run = await running('/**\n * Counts.\n *\n *   --to N   so far\n */\nprocess.exit(9)', '--help')
  expect(await run.child.exited).toEqual({ code: 0, signal: null })
  expect(run.child.output).toBe('Counts.\n\n  --to N   so far\n')
})

test('the command line of fencepost answers for itself when asked for help', async () => {
  await using run = new TestProcess(process.execPath, ['scripts/run.mjs', 'src/main.ts', 'demo', '--help'])
  expect(await run.exited).toEqual({ code: 0, signal: null })
  expect(run.output).toMatch(/fencepost demo/)
})
