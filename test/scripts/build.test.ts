/** What `npm run build` yields runs on its own: nothing of it is read from src/. */
import { accessSync, constants, copyFileSync, existsSync, globSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { TestProcess } from '../support/processes.ts'

const root = join(import.meta.dirname, '../..')
// Inside the repository, so that packages are found; as deep below its package.json as the real one.
const folder = join(root, '.tmp', `build-${process.pid}`)

beforeAll(async () => {
  mkdirSync(folder, { recursive: true })
  copyFileSync(join(root, 'package.json'), join(folder, 'package.json'))
  await using build = new TestProcess(process.execPath, ['scripts/build.ts', join(folder, 'dist')])
  expect(await build.exited, build.output).toEqual({ code: 0, signal: null })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('every source is there, compiled or as it was', () => {
  const expected = globSync('**/*.*', { cwd: join(root, 'src') })
    .filter((path) => !path.endsWith('.md'))
    .map((path) => path.replace(/\.ts$/, '.js'))
  expect(expected.filter((path) => !existsSync(join(folder, 'dist', path)))).toEqual([])
})

test('the command runs', async () => {
  const command = join(folder, manifest.bin.fencepost)
  accessSync(command, constants.X_OK)
  await using child = new TestProcess(command, ['--version'])
  expect(await child.exited, child.output).toEqual({ code: 0, signal: null })
  expect(child.output.trim()).toBe(manifest.version)
})

test('every file that package.json exports is there', () => {
  const named =
    JSON.stringify('exports' in manifest ? manifest.exports : {}).match(/\.\/[^"]*\.[a-z.]+/g) ?? []
  expect(named.filter((path) => !existsSync(join(folder, path)))).toEqual([])
})
