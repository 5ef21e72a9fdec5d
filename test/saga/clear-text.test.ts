/** Which databases `--require-tls` refuses, held to what the driver makes of their URLs. */
import pg from 'pg'
import { expect, test } from 'vitest'
import { isLoopback, isSafeDatabase } from '../../packages/saga/src/command/serve.ts'

const user = 'sagas:a-password-that-is-long-enough'

/** It connects to nothing here. */
function staysSafe(url: string): boolean {
  const client = new pg.Client({ connectionString: url })
  return client.ssl !== false || client.host.startsWith('/') || isLoopback(client.host)
}

test.each<[url: string, isSafe: boolean]>([
  ['127.0.0.1:5432/sagas', true],
  ['127.1.2.3/sagas', true],
  ['localhost/sagas', true],
  ['[::1]/sagas', true],
  ['10.0.0.5/sagas', false],
  ['[2001:db8::1]/sagas', false],
  ['localhost.example/sagas', false],
  ['db/sagas?sslmode=verify-full', true],
  ['db/sagas?sslmode=verify-ca', true],
  ['db/sagas?sslmode=require', true],
  ['db/sagas?sslmode=disable&sslmode=require', true],
  ['db/sagas?sslmode=require&sslmode=disable', false],
  ['db/sagas?sslmode=disable', false],
  ['db/sagas?sslmode=allow', false],
  ['db/sagas?sslmode=prefer', false],
  ['db/sagas?sslmode=no-verify', false],
  ['db/sagas?application_name=sslmode', false],
  ['/sagas?host=/run/postgresql', true],
  ['%2Frun%2Fpostgresql/sagas', true],
  // The parameter wins over the host of the URL, and the last over the first.
  ['localhost/sagas?host=db', false],
  ['localhost/sagas?host=localhost&host=db', false],
  ['db/sagas?host=localhost', true],
  // Without a host PGHOST would decide.
  ['/sagas', false],
  ['%zz/sagas', false],
])('%s: safe %s', (rest, isSafe) => {
  const url = `postgres://${user}@${rest}`
  expect(isSafeDatabase(url)).toBe(isSafe)
  if (isSafe) expect(staysSafe(url)).toBe(true)
})
