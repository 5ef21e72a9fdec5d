/** The code of the pages about the saga kit and its messages is run as it stands there. */
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

const pageOf = (name: string) => readFileSync(join(root, 'docs', name), 'utf8')
const blocksOf = (page: string) =>
  [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code)
const page = pageOf('guide/saga.md')
const blocks = blocksOf(page)
const messages = pageOf('reference/messages.md')

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

test('the mapping of one’s own on the page about messages reads a delivery beside the mappings of the kit', async () => {
  const file = join(folder, 'messages.ts')
  const body = JSON.stringify({ eventId: 'e-1', name: 'Paid', order: 'o-1', amount: 7 })
  const use = `console.log(JSON.stringify([...inbound, ours].map((mapping) => mapping(${JSON.stringify({
    headers: {},
    properties: {},
    body,
    redelivered: false,
  })}) ?? null)))`
  writeFileSync(file, [...blocksOf(messages), use].join('\n'))
  await using program = new TestProcess(process.execPath, [file])
  expect(await program.exited, program.output).toEqual({ code: 0, signal: null })
  expect(JSON.parse(program.output.trim().split('\n').at(-1)!)).toEqual([
    null,
    null,
    null,
    { id: 'e-1', type: 'Paid', orderingKey: 'o-1', payload: { amount: 7 } },
  ])
})

test.each([
  ['guide/saga.md', page],
  ['reference/messages.md', messages],
])('no code of %s stands outside of these blocks', (_, text) => {
  const rest = text.replaceAll(/^```ts\n[\s\S]*?^```$/gm, '')
  expect(rest).not.toMatch(/^ {4}(import|const|await|\w+: )/m)
})
