/** A whole sidecar whose routes verify tokens: its start without the issuer, the file beside the address, and its warnings. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { freePort } from '../support/free-port.ts'
import { posted } from '../support/post.ts'
import { between, type Sidecar, startSidecar } from '../support/sidecar.ts'
import { AUDIENCE, ISSUER, type Key, keySetOf, makeKey, sign } from '../support/token-issuer.ts'

const folder = mkdtempSync(join(tmpdir(), 'fencepost-keys-'))
const stack = stackOfTests()
stack.defer(() => rmSync(folder, { recursive: true }))
let application: TestApplication
let sidecar: Sidecar
let key: Key

beforeAll(async () => {
  key = await makeKey('a')
  writeFileSync(join(folder, 'keys.json'), await keySetOf(key))
  application = stack.use(await startApplication())
  const jwt = { issuer: ISSUER, audience: AUDIENCE, jwks: `http://127.0.0.1:${await freePort()}/` }
  const of = (name: string, principal: unknown) => ({
    name,
    match: { paths: [`/${name}`] },
    mode: 'header',
    principal,
  })
  const routes = [
    of('address', { jwt }),
    of('both', { jwt: { ...jwt, jwksFile: join(folder, 'keys.json') } }),
    of('plain', 'authorization'),
  ]
  const config = join(folder, 'fencepost.yaml')
  writeFileSync(config, JSON.stringify({ routes }))
  sidecar = stack.use(await startSidecar({ ...between('embedded', application), FENCEPOST_CONFIG: config }))
})

const statusOf = async (path: string, token: string) =>
  (await posted(sidecar.proxy + path, { 'idempotency-key': 'k', authorization: `Bearer ${token}` })).status

test('a sidecar starts without its issuer: tokens are unverifiable where only the address has keys, and verified by the file', async () => {
  expect(await statusOf('/address', await sign(key))).toBe(503)
  expect(await statusOf('/both', await sign(key))).toBe(201)
  expect(await statusOf('/both', await sign(key, { iss: 'other' }))).toBe(401)
  await sidecar.process.line(/"level":"warn".*can not be fetched/)
})

test('the first token that expires before the records of its route is warned of, once', async () => {
  expect(await statusOf('/plain', await sign(key))).toBe(201)
  expect(await statusOf('/plain', await sign(key, { jti: 'b' }))).toBe(201)
  await sidecar.process.line(
    /"level":"warn".*"route":"plain","expires_in":"(1h|3[0-9]{3}s|[0-9]+m)".*expires before the records/,
  )
  expect(sidecar.process.output.match(/expires before the records/g)?.length).toBe(1)
})
