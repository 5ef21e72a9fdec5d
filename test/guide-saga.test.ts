/** The program that the page about the saga kit consists of is run as it stands there, twice. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { startPostgres } from './support/postgres-server.ts'
import { TestProcess } from './support/processes.ts'

const root = join(import.meta.dirname, '..')
mkdirSync(join(root, '.tmp'), { recursive: true })
// Inside the repository, so that the packages are found.
const folder = mkdtempSync(join(root, '.tmp/guide-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const page = readFileSync(join(root, 'docs/guide/saga.md'), 'utf8')
const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code)

test('the blocks of the page are one program, whose second run answers from its records', {
  timeout: 180_000,
}, async () => {
  expect(blocks.length).toBeGreaterThan(6)
  const file = join(folder, 'program.ts')
  writeFileSync(file, blocks.join('\n'))
  await using database = await startPostgres()
  const run = async () => {
    await using program = new TestProcess(process.execPath, [file], { env: { DATABASE_URL: database.url } })
    expect(await program.exited, program.output).toEqual({ code: 0, signal: null })
    return program.output
  }
  const first = await run()
  expect(first).toContain('placed false order-1')
  expect(first).toMatch(/charged false charge-fp-/)
  expect(first).toMatch(/saga completed shelf of pen, charge-fp-/)
  const second = await run()
  expect(second).toContain('placed true order-1')
  expect(second).toMatch(/charged true charge-fp-/)
  // The event was published once. On a busy machine it is the second run that handles it.
  expect(`${first}${second}`.match(/answer OrderAccepted false \{ bill: 'bill-order-1' \}/g)).toHaveLength(1)
})

test('no code of the page stands outside of these blocks', () => {
  const rest = page.replaceAll(/^```ts\n[\s\S]*?^```$/gm, '')
  expect(rest).not.toMatch(/^ {4}(import|const|await) /m)
})
