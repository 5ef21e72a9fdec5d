// Which headers may name the tenant, the version and the client.
import { expect, test } from 'vitest'
import { describeErrors } from '../../src/config/errors.ts'
import { type Environment, loadConfig } from '../../src/config/load.ts'

const enough = { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000' }

function errorsOf(env: Environment): string {
  const loaded = loadConfig({ ...enough, ...env }, () => '')
  return loaded.kind === 'ok' ? '' : describeErrors(loaded.errors)
}

// Bug: each was accepted. As `host` it was taken from the requests of peers that are not trusted, so no route for a host was theirs.
test.each([
  ['FENCEPOST_TENANT_HEADER', 'Host', 'it is read by HTTP itself'],
  ['FENCEPOST_TENANT_HEADER', 'authorization', 'it is read by fencepost as the credentials of a client'],
  ['FENCEPOST_VERSION_HEADER', 'content-length', 'it is read by HTTP itself'],
  ['FENCEPOST_VERSION_HEADER', 'content-type', 'it is read by the application'],
  ['FENCEPOST_CLIENT_HEADER', 'idempotency-key', 'it is read by fencepost as the key'],
  ['FENCEPOST_CLIENT_HEADER', 'traceparent', 'it is another one with each try'],
])('%s is not %s', (name, header, reason) => {
  const errors = errorsOf({ [name]: header })
  expect(errors).toContain(`${name}: "${header.toLowerCase()}" is not accepted`)
  expect(errors).toContain(reason)
  expect(errors).toContain('accepted is a header that says nothing else, such as x-')
})

// Bug: every tenant that used one version was one tenant.
test.each(['FENCEPOST_TENANT_HEADER', 'FENCEPOST_CLIENT_HEADER'])(
  '%s is not the header of the version',
  (name) => {
    expect(errorsOf({ [name]: 'x-api-version' })).toContain(
      `${name}: header (x-api-version) ≠ FENCEPOST_VERSION_HEADER (x-api-version) does not hold`,
    )
    expect(errorsOf({ [name]: 'x-mine', FENCEPOST_VERSION_HEADER: 'X-Mine' })).toContain('(x-mine)')
  },
)

test('a tenant may be its own client', () => {
  expect(errorsOf({ FENCEPOST_CLIENT_HEADER: 'x-tenant-id' })).toBe('')
})
