/**
 * What a client does with the answers of a later sidecar: members that it does not know, and problems whose codes it has never seen. The
 * later sidecar is a real one, behind a relay that adds to each of its answers.
 */
import { createServer } from 'node:http'
import { createClient, DuplicateError, RefusedError } from '@fencepost/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { listening } from '../support/listening.ts'
import { startReservationApi } from '../support/reservation-api.ts'

let url: string
let end: () => void
/** What the relay does to a body on its way. */
let change: (body: Record<string, unknown>) => Record<string, unknown>

const api = duringTests(() => startReservationApi())
beforeAll(async () => {
  const relay = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part)
    const answer = await fetch(`${api.origin}${request.url}`, {
      method: request.method ?? 'GET',
      headers: { 'content-type': 'application/json' },
      ...(parts.length === 0 ? {} : { body: Buffer.concat(parts) }),
    })
    const body = change((await answer.json()) as Record<string, unknown>)
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    response.end(JSON.stringify(body))
  })
  url = (await listening(relay)).origin
  end = () => {
    relay.closeAllConnections()
    relay.close()
  }
})
afterAll(() => end())

const added = { added_later: { nested: [1, 2] }, another: null }

test('members that a later sidecar adds to its answers change nothing', async () => {
  change = (body) => ({ ...added, ...body, ...added })
  const client = createClient({ url })
  const held = await client.reserve('with more members', { heartbeat: false })
  expect(await client.read('with more members')).toMatchObject({ state: 'HELD', attempt: 1 })
  await held.extend()
  await held.complete({ paid: true })
  const refused = await client.reserve('with more members').catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(DuplicateError)
  expect((refused as DuplicateError).result).toEqual({ paid: true })
})

test('a problem with a code of a later sidecar is a refusal with that code, and no success', async () => {
  const held = await createClient({ url }).reserve('of another code', { heartbeat: false })
  change = (body) => ({ ...body, ...('code' in body ? { code: 'invented-later' } : {}) })
  const refused = await createClient({ url })
    .reserve('of another code')
    .catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(RefusedError)
  expect(refused).toMatchObject({ status: 409, code: 'invented-later' })
  await held.release()
})

test('a member that an earlier sidecar does not know is refused by name: nothing is reserved without it', async () => {
  const answer = await api.call('/v1/reservations', {
    session_id: 's',
    reserved_value: 'from a later client',
    priority: 'high',
  })
  expect(answer.status).toBe(400)
  expect(JSON.stringify(answer.body)).toContain('priority')
  change = (body) => body
  expect((await createClient({ url }).read('from a later client')).state).toBe('FREE')
})
