/** One version of `@fencepost/client` and a sidecar of another: every call, and every error that a caller tells from the others. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type * as Client from '@fencepost/client'
import { eventually } from '../support/eventually.ts'

type Row = (at: {
  readonly client: Client.Client
  readonly other: Client.Client
  readonly name: string
}) => Promise<void>

/** Names and codes, not classes: each version has classes of its own. */
async function refusal(
  of: Promise<unknown>,
): Promise<{ name: string; code: string; status: number; error: object }> {
  try {
    await of
  } catch (error) {
    const { name, code, status } = error as Client.FencepostError
    return { name, code, status, error: error as object }
  }
  throw new Error('it was not refused')
}

/** `other` is a second caller of the same version. */
const CLIENT_CALLS: Readonly<Record<string, Row>> = {
  'reserve, extend, complete, and the result for a duplicate': async ({ client, other, name }) => {
    const held = await client.reserve(name, { heartbeat: false, leaseMs: 3_000 })
    equal(held.attempt, 1)
    await held.extend()
    await held.complete({ paid: true })
    const { name: error, code, error: duplicate } = await refusal(other.reserve(name))
    deepEqual([error, code], ['DuplicateError', 'reservation-duplicate'])
    deepEqual((duplicate as Client.DuplicateError).result, { paid: true })
    deepEqual((await other.read(name)).state, 'COMPLETED')
  },

  'a conflict says so, and waits for the holder': async ({ client, other, name }) => {
    const held = await client.reserve(name)
    const { name: error, status } = await refusal(other.reserve(name))
    deepEqual([error, status], ['ConflictError', 409])
    const waiting = other.reserve(name, { waitMs: 8_000 })
    await held.release()
    const next = await waiting
    ok(next.fencingToken > held.fencingToken)
    await next.release()
    equal((await client.read(name)).state, 'FREE')
  },

  'several values and an entity': async ({ client, other, name }) => {
    const entities = [`${name}-account`]
    const held = await client.reserve([`${name}-a`, `${name}-b`], { entities })
    const { name: error } = await refusal(other.reserve(`${name}-c`, { entities }))
    equal(error, 'EntityBusyError')
    await held.complete(1)
  },

  'work is done once': async ({ client, other, name }) => {
    let done = 0
    const work = async () => {
      done += 1
      return { done }
    }
    deepEqual(await client.withReservation(name, work), { done: 1 })
    const { name: error } = await refusal(other.withReservation(name, work))
    equal(error, 'DuplicateError')
    equal(done, 1)
  },

  'a holder whose lease lapsed is fenced': async ({ client, other, name }) => {
    const held = await client.reserve(name, { heartbeat: false, leaseMs: 1_000 })
    await eventually('it to lapse', async () => (await other.read(name)).state === 'LAPSED')
    const next = await other.reserve(name)
    equal(next.attempt, 2)
    const { name: error } = await refusal(held.complete('late'))
    ok(['FencedError', 'LeaseLostError', 'LeaseEndedError'].includes(error), error)
    await next.complete('in time')
    equal((await client.read(name)).result, 'in time')
  },

  'a lease is renewed for longer than it lasts': async ({ client, other, name }) => {
    const held = await client.reserve(name, { leaseMs: 1_500 })
    const began = performance.now()
    await eventually(
      'two leases',
      async () => {
        equal((await other.read(name)).state, 'HELD')
        return performance.now() - began > 3_000
      },
      { everyMs: 300 },
    )
    equal(held.signal.aborted, false)
    await held.complete(null)
  },

  'a call that the sidecar does not know how to serve is refused with its code': async ({ client }) => {
    const { name, code, status } = await refusal(client.reserve('x'.repeat(1_025)))
    deepEqual([name, status], ['RefusedError', 400])
    ok(code === 'request-invalid' || code === 'scope-invalid', code)
  },
}

type Called = { readonly name: string; readonly failure: string | undefined }

/** @param url of the reservation API of a sidecar of the other version */
export async function callAcross(
  createClient: typeof Client.createClient,
  url: string,
): Promise<readonly Called[]> {
  const called: Called[] = []
  for (const [name, row] of Object.entries(CLIENT_CALLS)) {
    const [client, other] = [createClient({ url }), createClient({ url })]
    const failure = await row({ client, other, name: `client-${randomUUID()}` }).then(
      () => undefined,
      (cause: unknown) => (cause instanceof Error ? cause.message : String(cause)),
    )
    called.push({ name, failure })
  }
  return called
}
