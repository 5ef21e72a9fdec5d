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

/** What the page leaves to its reader: requests to the handlers, and a message for the consumer. */
const uses: readonly (readonly [part: string, use: string])[] = [
  [
    'web.post',
    `
const sent = { method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': 'k-1' }, body: '{"amount":5}' } as const
const listening = web.listen(0, '127.0.0.1')
await new Promise((resolve) => listening.once('listening', resolve))
const { port } = listening.address() as { port: number }
const injected = await service.inject({ ...sent, url: '/orders' })
const over = (name: string, status: number, replayed: unknown, text: string) => console.log(\`over \${name}: \${status} \${replayed} \${text}\`)
const shown = async (name: string, answered: Response) =>
  over(name, answered.status, answered.headers.get('idempotent-replayed'), await answered.text())
await shown('Express', await fetch(\`http://127.0.0.1:\${port}/orders\`, sent))
over('Fastify', injected.statusCode, injected.headers['idempotent-replayed'], injected.body)
await shown('fetch', await POST(new Request('http://localhost/orders', sent)))
listening.close()
listening.closeAllConnections()
`,
  ],
  [
    "queue: 'shipping'",
    `
// Told by the row itself: the consumer of the queue \`billing\` may change it again at once.
const watching = await pool.connect()
const change = new Promise<{ payload?: string }>((resolve) => watching.once('notification', resolve))
await watching.query(\`
  CREATE OR REPLACE FUNCTION tell_shipped() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('shipped', concat_ws(' ', NEW.id, 'is', NEW.state)); RETURN NULL; END $$;
  CREATE OR REPLACE TRIGGER tell_shipped AFTER UPDATE ON orders FOR EACH ROW WHEN (NEW.state = 'shipped') EXECUTE FUNCTION tell_shipped();
  LISTEN shipped\`)
await kit.transaction((tx) =>
  publish(kit, tx, { aggregateType: 'order', aggregateId: 'order-1', type: 'OrderPaid', payload: { orderId: 'order-1' }, destination: 'shipping' }),
)
console.log((await change).payload)
watching.release(true)
`,
  ],
]

test('the types of the blocks are right, as strictly as the kit’s own', async () => {
  const files = { 'types.ts': blocks, 'types-of-messages.ts': blocksOf(messages) }
  for (const [name, parts] of Object.entries(files)) writeFileSync(join(folder, name), parts.join('\n'))
  const options = { noUnusedLocals: false }
  const settings = {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: options,
    files: Object.keys(files),
    include: [],
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(settings))
  await using compiler = new TestProcess(process.execPath, [
    join(root, 'node_modules/typescript/bin/tsc'),
    '-p',
    folder,
  ])
  expect(await compiler.exited, compiler.output).toEqual({ code: 0, signal: null })
})

test('the blocks of the page are one program, whose second run answers from its records', {
  timeout: 400_000,
}, async () => {
  expect(blocks.length).toBeGreaterThan(6)
  const file = join(folder, 'program.ts')
  writeFileSync(
    file,
    blocks
      .flatMap((block) => [block, ...uses.flatMap(([part, use]) => (block.includes(part) ? [use] : []))])
      .join('\n'),
  )
  await using database = await startPostgres()
  const run = async () => {
    await using program = new TestProcess(process.execPath, [file], { env: { DATABASE_URL: database.url } })
    expect(await program.exited, program.output).toEqual({ code: 0, signal: null })
    return program.output
  }
  const first = await run()
  for (const over of ['Express', 'Fastify', 'fetch'])
    expect(first).toContain(`over ${over}: 201 true {"amount":5}`)
  expect(first).toContain('order-1 is shipped')
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
  expect(rest.match(/^ {4}(?!npm |npx |mvn |FENCEPOST_)\S.*$/gm)).toBeNull()
})
