/** The adapters for Express and Fastify: what the caller of a server gets where a route throws a refusal. */

import type { AddressInfo } from 'node:net'
import {
  CompletionUndecidedError,
  ConflictError,
  DuplicateError,
  EntityBusyError,
  FencedError,
  LeaseLostError,
  MismatchError,
  QuorumUnavailableError,
  RefusedError,
  ReservationLostError,
  UndecidedError,
  UnreachableError,
} from '@fencepost/client'
import { fencepostErrors as forExpress } from '@fencepost/client/express'
import { fencepostErrors as forFastify } from '@fencepost/client/fastify'
import express, { type NextFunction, type Request, type Response } from 'express'
import Fastify from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

/** A problem of the sidecar as it would come: with what must not go on to a caller. */
const said = (code: string, more = {}) => ({ code, detail: 'inner', value: 'inner', ...more })
const PROBLEM = 'application/problem+json'

// biome-ignore format: one line reads as one case
const table: readonly [name: string, error: unknown, status: number, retryAfter: string | null, code: string | undefined][] = [
  ['conflict', new ConflictError('m', 409, said('reservation-conflict', { retry_after: 2.2 })), 409, '3', 'reservation-conflict'],
  ['entity-busy', new EntityBusyError('m', 409, said('entity-busy')), 409, '1', 'entity-busy'],
  ['undecided', new UndecidedError('m', 409, said('outcome-undecided')), 409, null, 'outcome-undecided'],
  ['mismatch', new MismatchError('m', 422, said('key-reused')), 422, null, 'key-reused'],
  ['quorum', new QuorumUnavailableError('m', 503, said('quorum-unavailable')), 503, '1', 'quorum-unavailable'],
  ['unreachable', new UnreachableError('m', 0, {}), 503, '1', undefined],
  ['draining', new RefusedError('m', 503, said('draining')), 503, '1', 'draining'],
  ['tenant-in-flight', new RefusedError('m', 429, said('tenant-in-flight')), 503, '1', 'tenant-in-flight'],
  ['lease-lost', new LeaseLostError('m', 410, said('lease-lost')), 503, '1', 'lease-lost'],
  ['reservation-lost', new ReservationLostError('m', 410, said('reservation-lost')), 503, '1', 'reservation-lost'],
  ['fenced', new FencedError('m', 410, said('fenced')), 503, '1', 'fenced'],
  ['completion', new CompletionUndecidedError('m', 503, said('completion-undecided')), 503, '1', 'completion-undecided'],
]
const others: Readonly<Record<string, unknown>> = {
  object: new DuplicateError('m', 409, said('reservation-duplicate', { result: { paid: 5 } })),
  string: new DuplicateError('m', 409, said('reservation-duplicate', { result: 'paid' })),
  null: new DuplicateError('m', 409, said('reservation-duplicate', { result: null })),
  without: new DuplicateError('m', 409, said('reservation-duplicate')),
  'wrong-call': new RefusedError('m', 400, said('request-invalid')),
  own: new Error('own'),
}
const errors = new Map<string, unknown>([
  ...table.map(([name, error]) => [name, error] as const),
  ...Object.entries(others),
])

async function startExpress() {
  const app = express()
  app.get('/:name', async ({ params }) => {
    throw errors.get(params.name)
  })
  app.use(forExpress())
  app.use((_error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    response.status(500).send('the application’s own')
  })
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, close: () => server[Symbol.asyncDispose]() }
}

async function startFastify() {
  const app = Fastify()
  app.setErrorHandler((_error, _request, reply) => reply.code(500).send('the application’s own'))
  await app.register(forFastify)
  app.get<{ Params: { name: string } }>('/:name', async ({ params }) => {
    throw errors.get(params.name)
  })
  return { url: await app.listen({ host: '127.0.0.1', port: 0 }), close: () => app.close() }
}

describe.each([
  ['Express', startExpress],
  ['Fastify', startFastify],
])('%s', (_framework, start) => {
  let server: { readonly url: string; readonly close: () => Promise<unknown> }
  beforeAll(async () => {
    server = await start()
  })
  afterAll(() => server.close())

  test.each(table)('%s', async (name, _error, status, retryAfter, code) => {
    const response = await fetch(`${server.url}/${name}`)
    expect(response.status).toBe(status)
    expect(response.headers.get('retry-after')).toBe(retryAfter)
    expect(response.headers.get('content-type')).toContain(PROBLEM)
    const body = await response.text()
    expect(body).not.toContain('inner')
    const type = code === undefined ? 'about:blank' : `https://fencepost.dev/problems/${code}`
    expect(JSON.parse(body)).toMatchObject({ status, type, ...(code === undefined ? {} : { code }) })
  })

  test.each<[string, number, string]>([
    ['object', 200, '{"paid":5}'],
    ['string', 200, '"paid"'],
    ['null', 200, 'null'],
    ['without', 204, ''],
  ])('a duplicate whose result is of the kind %s is answered with it', async (name, status, body) => {
    const response = await fetch(`${server.url}/${name}`)
    expect([response.status, await response.text()]).toEqual([status, body])
    expect(response.headers.get('idempotency-status')).toBe('replayed')
    if (status === 200) expect(response.headers.get('content-type')).toContain('application/json')
  })

  test.each(['wrong-call', 'own'])('%s is left to the application', async (name) => {
    const response = await fetch(`${server.url}/${name}`)
    expect([response.status, await response.text()]).toEqual([500, 'the application’s own'])
  })
})
