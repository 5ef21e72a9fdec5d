// A sidecar with a database answers about sagas, dead letters and the outbox; one without has no such calls.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createOutboxRelay, createSagaRunner, defineSaga, publish } from '@fencepost/saga'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'
import { type TestKit, testKit } from '../support/saga-kit.ts'
import { type Sidecar, startSidecar } from '../support/sidecar.ts'

let server: PostgresServer
let kit: TestKit
let sidecar: Sidecar
beforeAll(async () => {
  server = await startPostgres()
  kit = await testKit(server)
  const file = join(server.folder, 'database-url')
  writeFileSync(file, `${server.url}\n`)
  sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_SAGA_DATABASE_FILE: file,
    FENCEPOST_SAGA_SCHEMA: kit.schemaName,
  })
})
afterAll(async () => {
  await sidecar[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

async function ask(path: string, body?: unknown) {
  const response = await fetch(`${sidecar.api}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

test('a saga is inspected with its steps, retried where parked, and refused where it cannot be moved', async () => {
  let broken = true
  const stubborn = {
    name: 'stubborn',
    maxAttempts: 1,
    effect: async () => {
      if (broken) throw new Error('down')
    },
  }
  const definitions = [defineSaga('o', [{ name: 'decide', pivot: true }, stubborn])]
  const runner = createSagaRunner({ kit, definitions, backoff: { initialMs: 0, maxMs: 0 } })
  await kit.transaction((tx) => runner.begin(tx, 'o', { sagaId: 'o-1', input: {} }))
  await runner.runOnce()
  expect(await ask('/v1/sagas/o-1')).toMatchObject({ status: 200, body: { status: 'parked', name: 'o' } })
  broken = false
  expect(await ask('/v1/sagas/o-1/retry', {})).toMatchObject({ status: 200, body: { status: 'running' } })
  await runner.runOnce()
  const late = await ask('/v1/sagas/o-1/compensate', { reason: 'late' })
  expect(late).toMatchObject({ status: 409, body: { code: 'saga-not-movable' } })
  expect(await ask('/v1/sagas/nobody')).toMatchObject({ status: 404, body: { code: 'saga-unknown' } })
  expect(await ask('/v1/sagas/o-1/compensate', {})).toMatchObject({
    status: 400,
    body: { code: 'request-invalid' },
  })
})

test('sagas are listed a page at a time, by their state; another state or parameter is refused', async () => {
  const all = await ask('/v1/sagas')
  expect(all).toMatchObject({ status: 200, body: { sagas: [{ sagaId: 'o-1', status: 'completed' }] } })
  expect((await ask('/v1/sagas?status=parked')).body).toEqual({ sagas: [] })
  expect((await ask('/v1/sagas?after=o-1')).body).toEqual({ sagas: [] })
  for (const query of ['status=lost', 'page=2'])
    expect(await ask(`/v1/sagas?${query}`)).toMatchObject({ status: 400, body: { code: 'request-invalid' } })
})

test('dead letters are listed and replayed, and the lag is reported', async () => {
  const publisher = new RecordingPublisher()
  publisher.react = () => 'refuse'
  await kit.transaction((tx) =>
    publish(kit, tx, { aggregateType: 'a', aggregateId: '1', type: 'T', payload: {} }),
  )
  await using relay = createOutboxRelay({ kit, publisher, retry: { maxAttempts: 1 } })
  await relay.drainOnce()
  const { body } = await ask('/v1/dead-letters')
  const [letter] = body.dead_letters as { id: number; errorCode: string }[]
  expect(letter).toMatchObject({ errorCode: 'publish_refused' })
  expect(await ask('/v1/dead-letters/replay', { ids: [letter!.id] })).toEqual({
    status: 200,
    body: { replayed: 1 },
  })
  expect(await ask('/v1/outbox/lag')).toMatchObject({ status: 200, body: { pending: 1, parked: 0 } })
})

test('the calls are in the OpenAPI document', async () => {
  const { body } = await ask('/openapi.json')
  expect(Object.keys(body.paths as object)).toEqual(
    expect.arrayContaining(['/v1/sagas', '/v1/sagas/{id}', '/v1/outbox/lag']),
  )
})

// Bug: the log said that a relation does not exist.
test('tables that nobody has made yet are a warning that says what to do', async () => {
  await using early = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_SAGA_DATABASE_FILE: join(server.folder, 'database-url'),
    FENCEPOST_SAGA_SCHEMA: 'not_migrated',
  })
  await early.process.line(/the schema not_migrated lacks tables or columns .* fencepost-saga migrate/)
})

test('the database goes away: these calls say so, reservations go on', async () => {
  await server.kill()
  expect(await ask('/v1/sagas/o-1')).toMatchObject({ status: 503, body: { code: 'database-unavailable' } })
  expect((await ask('/v1/reservations', { session_id: 's', reserved_value: 'v' })).status).toBe(201)
  await server.start()
  expect((await ask('/v1/sagas/o-1')).status).toBe(200)
})
