/** `fencepost-saga serve` as a process: its two listeners, its tokens and its end. */
import { writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { makeAuthority } from '../support/certificates.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { OPERATE_TOKEN, VIEW_TOKEN } from '../support/operator-caller.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { TestProcess } from '../support/processes.ts'
import { testKit } from '../support/saga-kit.ts'
import { SAGA_COMMAND, type SagaServer, startSagaServer } from '../support/saga-server.ts'
import { seriesOf } from '../support/series.ts'

const stack = stackOfTests()
let postgres: PostgresServer
let schema: string
let server: SagaServer
beforeAll(async () => {
  postgres = stack.use(await startPostgres())
  schema = (await testKit(postgres)).schemaName
  server = stack.use(await startSagaServer(postgres.url, schema))
})

const me = async (token: string) => {
  const response = await fetch(`${server.origin}/v1/me`, { headers: { authorization: `Bearer ${token}` } })
  return [response.status, ((await response.json()) as { role?: string }).role]
}

test('gauges and liveness are there without a token, on a listener that has nothing else', async () => {
  const read = async (path: string) => {
    const response = await fetch(server.metrics + path)
    return [response.status, await response.text()] as const
  }
  await eventually('a look at the database', async () => {
    return seriesOf((await read('/metrics'))[1]).get('fencepost_saga_database_up') === 1
  })
  expect(await read('/healthz')).toEqual([200, 'ok\n'])
  for (const path of ['/', '/v1/sagas', '/__proto__']) expect((await read(path))[0]).toBe(404)
  expect((await fetch(`${server.origin}/metrics`)).status).toBe(401)
})

test('a changed file of tokens is in force at once; one that is not accepted changes nothing, and is told', async () => {
  expect([await me(OPERATE_TOKEN), await me(VIEW_TOKEN)]).toEqual([
    [200, 'operate'],
    [200, 'view'],
  ])
  writeFileSync(server.operators, `ann view ${OPERATE_TOKEN}\n`)
  expect([await me(OPERATE_TOKEN), (await me(VIEW_TOKEN))[0]]).toEqual([[200, 'view'], 401])
  writeFileSync(server.operators, 'ann view short\n')
  expect(await me(OPERATE_TOKEN)).toEqual([200, 'view'])
  await server.process.line(/is not accepted: the token on line 1 .*; the tokens of before stay$/)
})

test('a database without tables is a line that says what to do, and no end', async () => {
  await using early = await startSagaServer(postgres.url, 'not_migrated')
  await early.process.line(/the schema not_migrated lacks tables or columns .* fencepost-saga migrate/)
  expect((await fetch(`${early.metrics}/healthz`)).status).toBe(200)
})

test('it speaks TLS with a certificate, and ends with 0 where it is asked to', async () => {
  using authority = makeAuthority()
  const { certFile, keyFile } = authority.sign('sagas')
  const tls = ['--tls-cert', certFile, '--tls-key', keyFile]
  await using safe = await startSagaServer(postgres.url, schema, tls)
  const status = await new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${VIEW_TOKEN}` }
    get(`${safe.origin}/v1/me`, { ca: authority.ca(), headers, agent: false }, (response) => {
      resolve(response.resume().statusCode)
    }).once('error', reject)
  })
  expect([safe.origin.slice(0, 8), status]).toEqual(['https://', 200])
  safe.process.signal('SIGTERM')
  expect(await safe.process.exited).toEqual({ code: 0, signal: null })
})

test.each([
  [['--operators', '/none'], /\/none is not accepted: \/none cannot be read: ENOENT/],
  [[], /serve takes --operators/],
  [
    ['--listen', '0.0.0.0:8090'],
    /would take tokens in clear text .*write 127\.0\.0\.1:8090, or give --tls-cert/,
  ],
  [['--listen', '8090'], /accepted is host:port/],
  [['--tls-cert', '/x'], /are given together/],
  [['--tls-cert', '/x', '--tls-key', '/x'], /\/x cannot be read: ENOENT/],
  // Bug: it said that the database did not do it, and ended as it does where that is away.
  [['--tls-cert', 'package.json', '--tls-key', 'package.json'], /^--tls-cert .* are not accepted: /m],
])('%j is refused with a sentence', async (args, sentence) => {
  const tokens = join(postgres.folder, 'tokens')
  writeFileSync(tokens, `bob operate ${OPERATE_TOKEN}\n`)
  const given = args.length === 0 || args[0] === '--operators' ? args : ['--operators', tokens, ...args]
  await using child = new TestProcess(process.execPath, [SAGA_COMMAND, 'serve', ...given], {
    env: { DATABASE_URL: postgres.url },
  })
  expect(await child.exited).toEqual({ code: 64, signal: null })
  expect(child.output).toMatch(sentence)
})
