/**
 * The pairs of Content-Type lines of test/vectors/content-type.json, at a gateway's check and at POST /v1/fingerprint:
 * the record that the check claims is the one of the fingerprint that the API shows, so both decide alike.
 */
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { recordKey } from '../../../src/core/request/identity.ts'
import { duringTests } from '../../support/during-tests.ts'
import { startGatewayListener } from '../../support/gateway-listener.ts'
import { route, TEST_SCOPE } from '../../support/proxy.ts'
import { startReservationApi } from '../../support/reservation-api.ts'
import { vectorsOf } from '../../support/vectors.ts'

// The client of the gateway sends headers of its own.
const fingerprint = { ...route().fingerprint, headers: [] }
const routes = [route({ mode: 'content', fingerprint })]

const gateway = duringTests(() => startGatewayListener({ options: { routes } }))
const api = duringTests(() => startReservationApi({ options: { routes } }))

type Input = { first: string | null; second: string | null; bodyHex: string }
const headersOf = (type: string | null): Record<string, string> =>
  type === null ? {} : { 'content-type': type }

// A check without a body is refused where the content is the key.
const withBody = vectorsOf<Input, { same: boolean }>('content-type.json').filter(
  ({ input }) => input.bodyHex !== '',
)

test.each(withBody)(
  'a gateway and the API agree: $name ($input.first, $input.second)',
  async ({ input: { first, second, bodyHex }, expected: { same } }) => {
    const body = Buffer.from(bodyHex, 'hex')
    // A path of its own for each vector, because they share their bodies and types.
    const path = `/${randomUUID()}`
    const check = async (type: string | null) => {
      const url = `${gateway.origin}/v1/gateway/ext-authz${path}`
      const { status } = await fetch(url, { method: 'POST', body, headers: headersOf(type) })
      return status
    }
    const contentRecord = async (type: string | null) => {
      const request = { method: 'POST', path, headers: headersOf(type), body_base64: body.toString('base64') }
      const { hash } = (await api.call('/v1/fingerprint', { request })).body as { hash: string }
      const scope = { ...TEST_SCOPE.defaults, principal: 'anonymous', method: 'POST', path }
      const record = recordKey({ ...scope, mode: 'content', fingerprint: hash })
      return record.kind === 'record_key' ? record.recordKey : expect.fail(record.kind)
    }

    const before = gateway.claimed().length
    expect([await check(first), await check(second)]).toEqual([200, same ? 409 : 200])
    const records = [await contentRecord(first), await contentRecord(second)]
    expect(gateway.claimed().slice(before)).toEqual(same ? [records[0]] : records)
    expect(records[0] === records[1]).toBe(same)
  },
)
