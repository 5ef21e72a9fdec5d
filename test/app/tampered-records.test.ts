/**
 * Records tampered with on the nodes, by real processes: refused, counted, not executed again, and never sent to a
 * client. Read as: what was done to the record on all nodes, what a duplicate is answered.
 *
 * docs/operations/security.md says what an attacker with write access to one node can forge, and what keeps them from it.
 */
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

let clients: readonly Redis[]

const servers = duringTests(() => startRedisServers(3, { founded: true }))
const application = duringTests(() => startCountingApplication())
const sidecar = duringTests(() =>
  startSidecar({
    ...between(servers, application),
    // Every duplicate goes to the nodes.
    FENCEPOST_OUTCOME_CACHE: '0B',
    ...PATIENT,
    // How long the refused rows take.
    FENCEPOST_CLAIM_BUDGET: '1500ms',
  }),
)
beforeAll(() => {
  clients = servers.urls.map((url) => new Redis(url))
})

afterAll(() => {
  for (const client of clients ?? []) client.disconnect()
})

/** `src/redis/lua/record.lua`: what stands before the outcome. */
const HEADER_BYTES = 166
/** When an outcome ends: at no time. */
const NEVER = Buffer.alloc(10, 0xff)
const CANARY = 'smuggled-by-tampering'

/** An outcome whose digest is right, whatever its head says. */
function sealed(head: unknown, version = 1): Buffer {
  const bytes = Buffer.from(typeof head === 'string' ? head : JSON.stringify(head))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  const rest = Buffer.concat([NEVER, length, bytes, Buffer.from(CANARY)])
  return Buffer.concat([Buffer.from([version]), createHash('sha256').update(rest).digest(), rest])
}

const head = { kind: 'response', status: 200, headers: [], completedAtWallMs: Date.now() }
const withOutcome = (outcome: Buffer) => (record: Buffer) =>
  Buffer.concat([record.subarray(0, HEADER_BYTES), outcome])
const splitting = `a\r\nX-Injected: ${CANARY}\r\n\r\n${CANARY}`

const DAMAGED = { status: 502, code: 'record-damaged', counted: /^fencepost_outcomes_damaged_total (\d+)/m }
const REFUSED = {
  status: 503,
  code: 'quorum-unavailable',
  counted: /^fencepost_redis_node_requests_total\{node="[^"]+",result="error"\} (\d+)/m,
}

test.each<[what: string, change: (record: Buffer) => Buffer | 'list', answer: typeof DAMAGED]>([
  ['a header with CR and LF', withOutcome(sealed({ ...head, headers: [['X-A', splitting]] })), DAMAGED],
  [
    'the name of a header with CR and LF',
    withOutcome(sealed({ ...head, headers: [[splitting, 'a']] })),
    DAMAGED,
  ],
  [
    'a tombstone whose location has CR and LF',
    withOutcome(sealed({ kind: 'tombstone', status: 200, location: splitting, completedAtWallMs: 1 })),
    DAMAGED,
  ],
  ['a status that is none', withOutcome(sealed({ ...head, status: '200 OK\r\nX-Injected: 1' })), DAMAGED],
  ['a status of an interim answer', withOutcome(sealed({ ...head, status: 101 })), DAMAGED],
  ['a head that is no JSON', withOutcome(sealed('{"kind":')), DAMAGED],
  ['a head of another shape', withOutcome(sealed([1, 2, 3])), DAMAGED],
  ['a version of tomorrow', withOutcome(sealed(head, 9)), DAMAGED],
  ['another body under the old digest', (record) => Buffer.concat([record, Buffer.from(CANARY)]), DAMAGED],
  ['an outcome that was cut', (record) => record.subarray(0, record.length - 5), DAMAGED],
  ['an outcome that is gone', (record) => record.subarray(0, HEADER_BYTES), DAMAGED],
  ['a record that was cut', (record) => record.subarray(0, 40), REFUSED],
  ['a record of another version', (record) => Buffer.concat([Buffer.from('7'), record.subarray(1)]), REFUSED],
  [
    'an unknown state',
    (record) => Buffer.concat([record.subarray(0, 1), Buffer.from('Z'), record.subarray(2)]),
    REFUSED,
  ],
  [
    'text instead of numbers',
    (record) => Buffer.concat([record.subarray(0, 2), Buffer.alloc(164, 'x')]),
    REFUSED,
  ],
  ['another type of Redis', () => 'list', REFUSED],
])('%s', async (what, change, { status, code, counted }) => {
  const { key } = await executed(`tampered-${what.replaceAll(' ', '-')}`)
  const before = await count(counted)
  for (const client of clients) {
    const { name, record } = await completedOn(client)
    const changed = change(record)
    if (changed === 'list') await client.multi().del(name).lpush(name, CANARY).pexpire(name, 60_000).exec()
    else await client.set(name, changed, 'KEEPTTL')
  }
  const answer = await post(key)
  expect([answer.status, (JSON.parse(answer.body) as { code: string }).code]).toEqual([status, code])
  expect(answer.bytes).not.toContain(CANARY)
  expect(answer.bytes.toLowerCase()).not.toContain('x-injected')
  expect(application.of(key).length).toBe(1)
  expect(await count(counted)).toBeGreaterThan(before)
  expect(sidecar.process.output).not.toContain(CANARY)
  await forgetAll()
})

test('a record changed on one node is outvoted by the unchanged ones', async () => {
  const { key, answer } = await executed('outvoted')
  const { name, record } = await completedOn(clients[1]!)
  await clients[1]!.set(
    name,
    withOutcome(sealed({ ...head, headers: [['X-A', splitting]] }))(record),
    'KEEPTTL',
  )
  const again = await post(key)
  expect([again.status, again.body]).toEqual([201, answer.body])
  expect(again.bytes).not.toContain(CANARY)
  expect(application.of(key).length).toBe(1)
  await forgetAll()
})

test('a record whose header states a wrong length of its body does not shift where the answer ends', async () => {
  const { key } = await executed('lengths')
  for (const client of clients) {
    const { name, record } = await completedOn(client)
    const lying = withOutcome(sealed({ ...head, headers: [['Content-Length', '3']] }))
    await client.set(name, lying(record), 'KEEPTTL')
  }
  const { status, bytes } = await post(key)
  expect([status, bytes.match(/^content-length: .*$/gim)]).toEqual([
    200,
    [`Content-Length: ${CANARY.length}`],
  ])
  await forgetAll()
})

/**
 * A request whose record stands on each node, under a key that begins so: of a majority that has it, a node may have missed its
 * deadline on a busy machine, and is not told afterwards.
 */
async function executed(prefix: string): Promise<{ readonly key: string; readonly answer: Answer }> {
  for (let time = 1; ; time += 1) {
    const key = `${prefix}-${time}`
    const answer = await post(key)
    expect(answer.status).toBe(201)
    const onEach = await Promise.all(clients.map(completedOn)).catch(() => undefined)
    if (onEach !== undefined) return { key, answer }
    await forgetAll()
  }
}

async function forgetAll(): Promise<void> {
  for (const client of clients) await client.del(await recordsOf(client))
}

/** Only the record of the running case: the sidecar's own keys have another first part. */
async function recordsOf(client: Redis): Promise<string[]> {
  return client.keys('dedup:default:*')
}

/** Thrice the deadline of a node. */
const GIVEN_UP = { withinMs: 3_000 }

/** On each node by itself: the answer needed a majority only, and a completion overwrites a change made too early. */
function completedOn(client: Redis): Promise<{ readonly name: string; readonly record: Buffer }> {
  return eventually(
    'the record is completed on this node',
    async () => {
      const [name] = await recordsOf(client)
      const record = name === undefined ? null : await client.getBuffer(name)
      return name !== undefined && record !== null && record.length > HEADER_BYTES && { name, record }
    },
    GIVEN_UP,
  )
}

async function count(pattern: RegExp): Promise<number> {
  const text = await (await fetch(`${sidecar.admin}/metrics`)).text()
  return Number(pattern.exec(text)?.[1] ?? Number.NaN)
}

type Answer = { readonly status: number; readonly body: string; readonly bytes: string }

/** On a raw socket: a client library might hide what it should not have been sent. */
function post(key: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(sidecar.proxy)
    const socket = connect(Number(port), hostname)
    let bytes = ''
    socket.setEncoding('latin1').on('data', (part) => {
      bytes += part
    })
    socket.on('error', reject)
    socket.on('end', () => {
      const [top = '', body = ''] = bytes.split('\r\n\r\n')
      resolve({ status: Number(top.split(' ')[1]), body, bytes })
    })
    socket.write(
      `POST /payments HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIdempotency-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`,
    )
  })
}
