/** The five minutes of both packages' pages are run as they stand there; only the sidecar's address is a free one. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { startPostgres } from './support/postgres-server.ts'
import { TestProcess } from './support/processes.ts'
import { startSidecar } from './support/sidecar.ts'

const root = join(import.meta.dirname, '..')
mkdirSync(join(root, '.tmp'), { recursive: true })
// Inside the repository, so that the packages are found.
const folder = mkdtempSync(join(root, '.tmp/readmes-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The program of a page, written to a file. */
function programOf(name: string, edit: (code: string) => string = (code) => code): string {
  const page = readFileSync(join(root, 'packages', name, 'README.md'), 'utf8')
  const [, code = ''] = /^```js\n([\s\S]*?)^```$/m.exec(page) ?? []
  const file = join(folder, `${name}.mjs`)
  writeFileSync(file, edit(code))
  return file
}

async function run(program: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
  await using child = new TestProcess(process.execPath, [program], { env })
  expect(await child.exited, child.output).toEqual({ code: 0, signal: null })
  return child.output
}

test('the client: the second run gets the result of the first', async () => {
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: 'embedded' })
  const program = programOf('client', (code) =>
    code.replace('createClient()', `createClient({ url: '${sidecar.api}' })`),
  )
  expect(await run(program)).toMatch(/^paid \{ paymentId: 'p-1'/)
  expect(await run(program)).toMatch(/^paid before \{ paymentId: 'p-1'/)
})

test('the saga kit: the second run answers from its record, and no message is handled twice', async () => {
  await using database = await startPostgres()
  const program = programOf('saga')
  const first = await run(program, { DATABASE_URL: database.url })
  expect(first).toContain('replayed: false')
  expect(first.match(/^billing/gm)).toHaveLength(1)
  const second = await run(program, { DATABASE_URL: database.url })
  expect(second).toContain('replayed: true')
  expect(second).not.toContain('billing')
})
