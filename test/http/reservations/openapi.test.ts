/** `/openapi.json` describes the served calls, limits and problems; its examples are true. */
import { Compile } from 'typebox/compile'
import { expect, test } from 'vitest'
import { PROBLEMS, type ProblemCode } from '../../../src/http/message/problems.ts'
import { operatorPaths } from '../../../src/http/operator/calls.ts'
import { CALL_NAMES, CALLS, type Call, PROBLEMS_OF_ALL } from '../../../src/http/reservations/calls.ts'
import type { Schema } from '../../../src/http/reservations/schemas.ts'
import { startReservationApi, type TestApiOptions } from '../../support/reservation-api.ts'

/** Fencing tokens, and ids of rows. */
const WIDE = /token$|^ids?$/

type Operation = {
  readonly operationId: string
  readonly requestBody?: { readonly content: Record<string, { readonly schema: Schema }> }
  readonly responses: Record<string, { readonly content: Record<string, Content> }>
}
type Content = { readonly schema: Schema; readonly examples?: Record<string, { readonly value: unknown }> }
type Document = { readonly openapi: string; readonly paths: Record<string, Record<string, Operation>> }

async function served(): Promise<Document> {
  await using api = await startReservationApi()
  return (await api.call('/openapi.json')).body as Document
}

test('the document describes exactly the calls of the table', async () => {
  const { openapi, paths } = await served()
  expect(openapi).toBe('3.1.1')
  const described = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { operationId }]) => [operationId, method.toUpperCase(), path]),
  )
  const table = CALL_NAMES.map((name) => [name, CALLS[name].method, CALLS[name].path])
  expect(described.sort()).toEqual(table.sort())
})

test('the document has every problem of a call under its status, with an example', async () => {
  const { paths } = await served()
  for (const name of CALL_NAMES) {
    const call: Call = CALLS[name]
    const { responses } = paths[call.path]![call.method.toLowerCase()]!
    const described = Object.entries(responses).flatMap(([status, { content }]) =>
      Object.keys(content['application/problem+json']?.examples ?? {}).map((code) => `${status} ${code}`),
    )
    const all = new Set<ProblemCode>([...PROBLEMS_OF_ALL, ...call.problems])
    expect(described.sort()).toEqual([...all].map((code) => `${PROBLEMS[code].status} ${code}`).sort())
  }
})

// Bug: in clients that openapi-generator makes for Java, Kotlin and Rust, a token was of 32 bits, and no answer to a reservation fitted.
test('what may be larger than 32 bits says so', async () => {
  const { paths } = await served()
  const wide: unknown[] = []
  const look = (name: string, of: unknown): void => {
    if (typeof of !== 'object' || of === null) return
    const { type, format, items } = of as { type?: string; format?: string; items?: { type?: string } }
    if (type === 'integer' && WIDE.test(name)) wide.push([name, format])
    if (items?.type === 'integer') look(name, items)
    for (const [member, schema] of Object.entries(of)) look(member, schema)
  }
  look('', { ...paths, ...operatorPaths() })
  expect(wide.length).toBeGreaterThanOrEqual(15)
  expect(wide.filter((one) => String(one).endsWith(',int64') === false)).toEqual([])
})

// Bug: limits of a session and of a tenant were answered, and not described.
test.each<[code: ProblemCode, given: TestApiOptions]>([
  ['session-reservations', { perSessionMax: 1 }],
  ['tenant-in-flight', { tenants: { inFlightMax: 0 } }],
  ['tenant-new-records', { tenants: { newRecordsPerSecondMax: 1 } }],
])('a reservation beyond a limit is refused as described: %s', async (code, given) => {
  await using api = await startReservationApi(given)
  const ask = (reserved_value: string) => api.call('/v1/reservations', { session_id: 's', reserved_value })
  await ask('v')
  const { status, body } = await ask('w')
  expect(body.code).toBe(code)
  // Bug: the log said that a tenant is refused, and not which.
  expect(api.events.findLast(({ kind }) => kind === 'decided')).toMatchObject({
    decision: 'overloaded',
    tenant: 'default',
  })
  const { paths } = await served()
  const { content } = paths['/v1/reservations']!.post!.responses[status]!
  expect(Object.keys(content['application/problem+json']?.examples ?? {})).toContain(code)
})

test('the examples of bodies and answers fit their schemas', async () => {
  const { paths } = await served()
  let looked = 0
  for (const operation of Object.values(paths).flatMap((operations) => Object.values(operations))) {
    const contents = [
      ...Object.values(operation.requestBody?.content ?? {}),
      ...Object.values(operation.responses).flatMap(({ content }) => Object.values(content)),
    ]
    for (const { schema } of contents) {
      for (const example of (schema as { examples?: readonly unknown[] }).examples ?? []) {
        expect([example, Compile(schema).Errors(example)]).toEqual([example, []])
        looked += 1
      }
    }
  }
  expect(looked).toBeGreaterThanOrEqual(6)
})

test('answers match their documented schemas', async () => {
  await using api = await startReservationApi()
  const reserved = await api.call('/v1/reservations', { session_id: 's', reserved_value: 'v' })
  const { reservation_id: id, fencing_token } = reserved.body
  const request = { method: 'POST', path: '/p', body: '{}' }
  const answers = [
    ['reserve', reserved],
    ['extend', await api.call(`/v1/reservations/${id}/extend`, { fencing_token })],
    ['standingOfReservation', await api.call(`/v1/reservations/${id}`)],
    ['complete', await api.call(`/v1/reservations/${id}/complete`, { fencing_token, result: [1] })],
    ['standingOfValue', await api.call('/v1/reservations?value=v')],
    ['fingerprint', await api.call('/v1/fingerprint', { request })],
  ] as const
  for (const [name, { status, body }] of answers) {
    const { success } = CALLS[name]
    expect([name, status, Compile(success.schema).Errors(body)]).toEqual([name, success.status, []])
  }
})

test('the fingerprint of a request says which of its headers count, and which do not', async () => {
  await using api = await startReservationApi()
  const of = async (headers: Record<string, string>) => {
    const request = {
      method: 'POST',
      path: '/p',
      body: '{}',
      headers: { 'content-type': 'application/json', ...headers },
    }
    return (await api.call('/v1/fingerprint', { request })).body as Record<string, unknown>
  }
  const headers = { Cookie: 'session=a; _ga=1', Accept: 'text/html', 'User-Agent': 'a' }
  expect(await of({ ...headers, Host: 'shop' })).toMatchObject({
    route: 'unsafe-by-content',
    identified_by: 'content',
    components: expect.arrayContaining([
      expect.objectContaining({
        name: 'headers',
        value: [
          ['accept', 'text/html'],
          ['cookie', 'session=a'],
          ['host', 'shop'],
        ],
      }),
    ]),
    ignored_headers: ['user-agent'],
  })
  const keyed = { ...headers, 'Idempotency-Key': 'k', 'Stripe-Account': 'a' }
  expect(await of(keyed)).toMatchObject({
    route: 'unsafe-with-key',
    identified_by: 'key',
    ignored_headers: ['accept', 'cookie', 'idempotency-key', 'user-agent'],
  })
})
