/**
 * While settings or routes are rolled out, pods decide by different ones. What that is for a request and its retry that meet two of
 * them is a table in docs/operations/upgrading.md; here each of its rows is tried, in both directions.
 */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { duringTests } from '../support/during-tests.ts'
import { postedJson } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

const folder = mkdtempSync(join(tmpdir(), 'fencepost-rolled-'))
const servers = duringTests(() => startRedisServers(3, { founded: true }))
const application = duringTests(() => startCountingApplication())
afterAll(() => rmSync(folder, { recursive: true }))

/** A pod with one route. */
function pod(route: string, env: Readonly<Record<string, string>> = {}): Promise<Sidecar> {
  const file = join(folder, `${randomUUID()}.yaml`)
  writeFileSync(file, `routes:\n  - { name: pay, match: { paths: ["/payments"] }, ${route} }\n`)
  return startSidecar({ ...PATIENT, ...between(servers, application), FENCEPOST_CONFIG: file, ...env })
}

async function pay({ proxy }: Sidecar, name: string): Promise<string> {
  const response = await postedJson(
    `${proxy}/payments`,
    { of: name, sent: 1 },
    { 'idempotency-key': name, 'x-order': name, 'x-account': 'a-1', authorization: 'Bearer one' },
  )
  await response.arrayBuffer()
  return `${response.status} ${response.headers.get('idempotency-status')}`
}

type Side = string | readonly [route: string, env: Readonly<Record<string, string>>]

const REPLAYED = '201 replayed'
const REFUSED = '422 mismatch'
const EXECUTED_AGAIN = '201 created'
/** The two have two addresses. */
const BY_CONTENT = 'mode: content, fingerprint: { ignore: [host] }'

test.each<[what: string, one: Side, other: Side, retry: string]>([
  ['lease and retention', 'mode: header', 'mode: header, lease: 60s, retention: 5m', REPLAYED],
  ['what is stored', 'mode: header', 'mode: header, store: { 404: release }', REPLAYED],
  ['contention', 'mode: header', 'mode: header, onContention: coordinate', REPLAYED],
  ['entities', 'mode: header', 'mode: header, entities: [{ header: x-account }]', REPLAYED],
  ['header and both', 'mode: header', 'mode: both', REPLAYED],
  ['fingerprint, with keys', 'mode: header', 'mode: header, fingerprint: { exclude: [/sent] }', REFUSED],
  [
    'fingerprint, where the content is the key',
    BY_CONTENT,
    'mode: content, fingerprint: { ignore: [host], exclude: [/sent] }',
    EXECUTED_AGAIN,
  ],
  ['content and header', BY_CONTENT, 'mode: header', EXECUTED_AGAIN],
  ['content and both', BY_CONTENT, 'mode: both', EXECUTED_AGAIN],
  ['their address, where the content is the key', 'mode: content', 'mode: content', EXECUTED_AGAIN],
  ['an address that the route ignores', BY_CONTENT, BY_CONTENT, REPLAYED],
  ['where the key is', 'mode: header', 'mode: header, key: { headers: [x-order] }', REPLAYED],
  [
    'parts of the key',
    'mode: header',
    'mode: header, key: { parts: [{ header: x-order }, { header: x-account }] }',
    EXECUTED_AGAIN,
  ],
  ['principal', 'mode: header', 'mode: header, principal: { header: x-account }', EXECUTED_AGAIN],
  ['tenant', 'mode: header', ['mode: header', { FENCEPOST_TENANT: 'shop' }], EXECUTED_AGAIN],
  ['environment', 'mode: header', ['mode: header', { FENCEPOST_ENV: 'live' }], EXECUTED_AGAIN],
  ['version of the API', 'mode: header', ['mode: header', { FENCEPOST_API_VERSION: 'v2' }], EXECUTED_AGAIN],
])('pods that differ in %s: a retry that meets the other one', async (what, one, other, retry) => {
  const started = (side: Side) => (typeof side === 'string' ? pod(side) : pod(...side))
  await using first = await started(one)
  await using second = await started(other)
  for (const [here, there] of [
    [first, second],
    [second, first],
  ] as const) {
    const name = `${what.replaceAll(/\W/g, '-')}-${randomUUID()}`
    expect(await pay(here, name)).toBe('201 created')
    expect(await pay(there, name)).toBe(retry)
  }
})
