/**
 * The log of a real sidecar over real nodes, field by field: one payment that loses its quorum while the application works, and one
 * that a retry takes over. What `log-fields.test.ts` says of events is here what somebody greps.
 */
import type { ServerResponse } from 'node:http'
import { afterEach, expect, test } from 'vitest'
import { startApplication } from '../support/application.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, startSidecar } from '../support/sidecar.ts'

const LEASE_MS = 6_000

let output = ''
/** The answers that the application owes, by key. */
const held = new Map<string, ServerResponse>()

const servers = duringTests(() => startRedisServers(3, { founded: true }))
const application = duringTests(() =>
  startApplication((request, response, execution) => {
    const [key = ''] = request.values('idempotency-key')
    const attempt = request.values('fencepost-attempt')[0]
    if (key === 'held') held.set(key, response)
    else if (key === 'dropped' && attempt === '1') response.destroy()
    else response.writeHead(201).end(String(execution))
  }),
)
const sidecar = duringTests(() =>
  startSidecar(
    {
      ...between(servers, application),
      FENCEPOST_LEASE: `${LEASE_MS}ms`,
      FENCEPOST_NODE_DEADLINE: '300ms',
      FENCEPOST_CLOCK_STEP: '100ms',
    },
    {
      onOutput: (text) => {
        output += text
      },
    },
  ),
)

type Line = Readonly<Record<string, unknown>>
const linesOf = (event: string): readonly Line[] =>
  output
    .split('\n')
    .filter((line) => line.includes(`"event":"${event}"`))
    .map((line) => JSON.parse(line) as Line)
const lineOf = (event: string, wanted: (line: Line) => boolean = () => true) =>
  eventually(`a line about ${event}`, () => linesOf(event).find(wanted), { withinMs: 30_000 })

const post = (key: string, body = '{"amount":1}') =>
  fetch(`${sidecar.proxy}/payments`, { method: 'POST', headers: { 'idempotency-key': key }, body })

const A_LOCK = expect.stringMatching(/^[0-9a-f]{16}-\d+$/)
const A_HASH = expect.stringMatching(/^[0-9a-f]{16}$/)
const A_TIME = expect.any(Number)

afterEach(() => {
  for (const index of [0, 1]) servers.resume(index)
})

test('a payment that loses its quorum: claim, duplicate, refusal, failed renewal, end of the lease and lost outcome are one lock', async () => {
  const first = post('held')
  first.catch(() => {})
  await eventually('the application has it', () => held.has('held'))

  const duplicate = await post('held')
  const { instance } = (await duplicate.json()) as { readonly instance: string }
  expect(await lineOf('decided', (line) => line.instance === instance)).toMatchObject({
    acquired: false,
    status: 409,
    tenant: 'default',
    key_hash: A_HASH,
    lease_remaining_ms: A_TIME,
  })

  for (const index of [0, 1]) servers.pause(index)
  const renewal = await lineOf('lease_renewed')
  expect(renewal).toMatchObject({
    level: 'warn',
    lock_id: A_LOCK,
    key_hash: A_HASH,
    quorum_nodes: '1/3',
    nodes_reached: 1,
    lease_remaining_ms: A_TIME,
    attempt: 1,
    tenant: 'default',
    // Its connection may be given up before its time is.
    error: expect.stringMatching(/\b1 renewed\b/),
  })
  const { lock_id, key_hash } = renewal
  const ofThis = { lock_id, key_hash, attempt: 1, tenant: 'default' }

  // A machine that stands still for a moment costs one refusal the third node, too: then it says 0/3, which is true.
  const refused = await eventually(
    'a refusal with the answer of the third node',
    async () => {
      const { instance } = (await (await post('other')).json()) as { readonly instance: string }
      const line = await lineOf('decided', (decided) => decided.instance === instance)
      expect(line).toMatchObject({ status: 503, key_hash: A_HASH, tenant: 'default' })
      return line.nodes_reached === 1 ? line : undefined
    },
    { withinMs: 30_000 },
  )
  expect(refused.quorum_nodes).toBe('1/3')

  expect(await lineOf('lease_ended', (line) => line.lock_id === lock_id)).toMatchObject({
    ...ofThis,
    lease_remaining_ms: A_TIME,
  })

  held.get('held')?.writeHead(201).end('done')
  expect((await first).headers.get('idempotency-status')).toBe('unstored')
  expect(await lineOf('completed')).toMatchObject({
    ...ofThis,
    level: 'error',
    quorum_nodes: '1/3',
    nodes_reached: 1,
    lease_remaining_ms: A_TIME,
  })
  expect(await lineOf('decided', (line) => line.status === 201)).toMatchObject({ ...ofThis, acquired: true })

  for (const index of [0, 1]) servers.resume(index)
  expect(await lineOf('settled_late')).toMatchObject({ ...ofThis, lease_remaining_ms: A_TIME })
})

/** Bug: the line of a request whose answer was lost named no lock and no attempt, although the application had worked under them. */
test('a payment that a retry takes over: the takeover, its outcome and the replay name the second lock', async () => {
  const lost = await post('dropped')
  const { instance } = (await lost.json()) as { readonly instance: string }
  const first = await lineOf('decided', (line) => line.instance === instance)
  expect(first).toMatchObject({
    acquired: true,
    status: 502,
    lock_id: A_LOCK,
    attempt: 1,
    tenant: 'default',
    key_hash: A_HASH,
  })

  const again = await eventually(
    'the retry is executed',
    async () => {
      const answer = await post('dropped')
      return answer.status === 201 ? answer : undefined
    },
    { withinMs: 5 * LEASE_MS },
  )
  expect(again.headers.get('idempotency-status')).toBe('created')
  const takeover = await lineOf('takeover')
  expect(takeover).toMatchObject({
    level: 'warn',
    lock_id: A_LOCK,
    key_hash: first.key_hash,
    quorum_nodes: expect.stringMatching(/^[23]\/3$/),
    nodes_reached: A_TIME,
    lease_remaining_ms: A_TIME,
    attempt: 2,
    tenant: 'default',
  })
  expect(takeover.lock_id).not.toBe(first.lock_id)

  expect((await post('dropped')).headers.get('idempotency-status')).toBe('replayed')
  const { lock_id, key_hash } = takeover
  const [created, replayed] = await eventually('both decisions', () => {
    const found = linesOf('decided').filter((line) => line.status === 201 && line.key_hash === key_hash)
    return found.length === 2 ? found : undefined
  })
  expect(created).toMatchObject({ acquired: true, lock_id, attempt: 2, tenant: 'default' })
  expect(replayed).toMatchObject({ acquired: false, lock_id, attempt: 2, tenant: 'default' })
})

/** Bug: while the breaker was open, answer and line counted 0 nodes that nobody had asked; two of them may well vote. */
test('a payment that is refused without asking a node: answer and line say so, and count none', async () => {
  for (const index of [0, 1]) servers.pause(index)
  const refused = await eventually(
    'the breaker is open',
    async () => {
      const answer = (await (await post('unasked')).json()) as Line
      return String(answer.detail).startsWith('No node was asked') ? answer : undefined
    },
    { withinMs: 15_000 },
  )
  expect(refused).toMatchObject({
    status: 503,
    detail: expect.stringMatching(/^No node was asked: the last claims found no majority\. Nothing was/),
  })
  const line = await lineOf('decided', ({ instance }) => instance === refused.instance)
  expect(line).toMatchObject({
    status: 503,
    key_hash: A_HASH,
    error: 'no node was asked: the last claims found no majority',
  })
  expect([line.quorum_nodes, line.nodes_reached]).toEqual([undefined, undefined])
})
