/**
 * An operator and one customer's stuck request, on five real Redis nodes and the sidecar as it is shipped: found by
 * what support has, seen on every node, decided through the quorum, and safe against the holder that comes back.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { beforeAll, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { damageRecord } from '../../support/damaged-record.ts'
import { stackOfTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { operatorCaller, operatorTokensFile, VIEW_TOKEN } from '../../support/operator-caller.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/otlp-receiver.ts'
import { postedJson } from '../../support/post.ts'
import { type RedisServers, startRedisServers } from '../../support/redis-servers.ts'
import { between, PATIENT, type Sidecar, startSidecar } from '../../support/sidecar.ts'

const stack = stackOfTests()
let servers: RedisServers
let application: TestApplication
let env: Record<string, string>
let sidecar: Sidecar
let operator: ReturnType<typeof operatorCaller>
/** Answers that the application holds back, by the path of their request. */
const held = new Map<string, ServerResponse>()
/** What the application says became of any attempt. */
let settleReply = '{"outcome":"released"}'
let traces: OtlpReceiver
/** What the sidecar has logged. */
let logged = ''

const ROUTES = `routes:
  - name: cards
    match: { methods: [POST], paths: [/cards] }
    mode: header
    redact: [/card/number]
  - name: others
    match: { methods: [POST] }
    mode: header
`

beforeAll(async () => {
  servers = stack.use(await startRedisServers(5, { founded: true }))
  application = stack.use(
    await startApplication((request, response, execution) => {
      if (request.target === '/settle') {
        response.setHeader('Content-Type', 'application/json')
        response.end(settleReply)
        return
      }
      const first = application.seen.filter(({ target }) => target === request.target).length === 1
      if (request.target.startsWith('/held') && first) {
        held.set(request.target, response)
        return
      }
      if (request.target === '/cards') {
        response.writeHead(201, { 'Content-Type': 'application/json' })
        response.end('{"card":{"number":"4111-1111","holder":"Ann"}}')
        return
      }
      response.writeHead(201, { 'Content-Type': 'text/html' })
      response.end(`<script>alert(${execution})</script>`)
    }),
  )
  const tokens = stack.use(operatorTokensFile())
  traces = stack.use(await startOtlpReceiver())
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-decisions-'))
  stack.defer(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'routes.yaml'), ROUTES)
  writeFileSync(join(folder, 'ring'), `first ${randomBytes(32).toString('base64')}\n`)
  env = {
    ...PATIENT,
    ...traces.env,
    FENCEPOST_CONFIG: join(folder, 'routes.yaml'),
    FENCEPOST_KEY_RING_FILE: join(folder, 'ring'),
    ...between(servers, application),
    FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:0',
    FENCEPOST_OPERATOR_TOKENS_FILE: tokens.path,
    FENCEPOST_SETTLE_PATH: '/settle',
    FENCEPOST_SWEEP_INTERVAL: '1h',
  }
  sidecar = stack.use(
    await startSidecar(env, {
      startWithinMs: 60_000,
      onOutput: (text) => {
        logged += text
      },
    }),
  )
  operator = operatorCaller(sidecar.operator)
})

const pay = (path: string, key: string, through = sidecar) =>
  fetch(`${through.proxy}${path}`, {
    method: 'POST',
    headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
    body: '{"amount":1}',
  })

/** Sends a request that the application holds back, and finds its record. */
async function stuck(path: string, key: string) {
  const client = pay(path, key)
  await eventually('the application has it', () => held.has(path))
  const record = await recordOf(path, key)
  const comeBack = async () => {
    held.get(path)?.writeHead(201).end('the holder')
    return client
  }
  return { record, comeBack }
}

async function recordOf(path: string, key: string): Promise<string> {
  const { status, body } = await operator.find({ key: { method: 'POST', path, idempotency_key: key } })
  expect(status).toBe(200)
  return body.records[0].record
}

const attemptsOf = (path: string) =>
  application.seen.filter(({ target }) => target === path).map((one) => one.values('fencepost-attempt')[0])

test('a stuck payment is found by its key, its hash, its lock id and its request, and shown on every node', async () => {
  const { record, comeBack } = await stuck('/held/found', 'k-found')
  const shown = await operator.show(record)
  expect(shown).toMatchObject({ state: 'live', attempt: 1, answered: 5, required: 3, tenant: 'default' })
  const [seen] = application.seen.filter(({ target }) => target === '/held/found')
  const lockId = seen?.values('fencepost-lock-id')[0]
  expect(shown.holder).toMatchObject({ lock_id: lockId, sidecar: expect.any(String) })
  expect(shown.in_application).toEqual({
    lock_ids_begin_with: lockId?.replace(/\d+$/, ''),
    fencing_tokens_up_to: shown.fencing_token,
  })
  expect(
    shown.nodes.map(({ state, differs }: { state: string; differs: boolean }) => [state, differs]),
  ).toEqual(Array.from({ length: 5 }, () => ['claimed', false]))
  const hash = record.slice(-64)
  const request = {
    method: 'POST',
    path: '/held/found',
    headers: { 'idempotency-key': 'k-found', 'content-type': 'application/json' },
    body: '{"amount":1}',
  }
  for (const body of [
    { reference: hash },
    { reference: hash.slice(0, 16) },
    { reference: lockId },
    { reference: record },
    { request },
  ])
    expect((await operator.find(body)).body.records.map((one: { record: string }) => one.record)).toEqual([
      record,
    ])
  const live = await operator.call('/records?state=live')
  expect(live.body.records.map((one: { record: string }) => one.record)).toContain(record)

  // The problem document that a client gets names what support needs.
  const duplicate = await pay('/held/found', 'k-found')
  const { key_hash: told, instance } = (await duplicate.json()) as { key_hash: string; instance: string }
  expect([duplicate.status, told]).toEqual([409, hash.slice(0, 16)])
  expect((await operator.find({ reference: instance })).body.records[0].record).toBe(record)
  const recent = await operator.call(`/decisions?key_hash=${told}`)
  expect(recent.body.decisions[0]).toMatchObject({ decision: 'duplicate_in_flight', key_hash: hash, record })

  // So do the line about that answer in the log, and the spans of the request in its trace.
  const line = await eventually('the line of the duplicate', () => {
    const text = logged.split('\n').find((one) => one.includes(instance))
    return text === undefined ? undefined : (JSON.parse(text) as { key_hash: string })
  })
  const span = await traces.until('a span of the duplicate', (spans) =>
    spans.find(({ attributes }) => attributes['fencepost.key_hash'] === told),
  )
  expect(span.attributes['fencepost.lock_id'] ?? lockId).toBe(lockId)
  for (const reference of [line.key_hash, span.attributes['fencepost.key_hash']])
    expect([reference, (await operator.find({ reference })).body.records?.[0]?.record]).toEqual([
      reference,
      record,
    ])
  await comeBack()
})

test('a record that another sidecar holds is shown with its name', async () => {
  await using other = await startSidecar(
    {
      ...env,
      FENCEPOST_INSTANCE: 'orders-7d9f-b',
    },
    { startWithinMs: 60_000 },
  )
  const client = pay('/held/elsewhere', 'k-elsewhere', other)
  await eventually('the application has it', () => held.has('/held/elsewhere'))
  const record = await recordOf('/held/elsewhere', 'k-elsewhere')
  const holder = await eventually('the nodes know the name', async () => {
    const shown = await operator.show(record)
    return shown.holder.sidecar === undefined ? undefined : shown.holder
  })
  expect(holder).toMatchObject({ sidecar: 'orders-7d9f-b', lock_id: expect.stringContaining('-') })
  held.get('/held/elsewhere')?.writeHead(201).end('the holder')
  expect((await client).status).toBe(201)
})

test('a claim that is ended lets the retry run as attempt 2, and the holder that comes back is fenced', async () => {
  const { record, comeBack } = await stuck('/held/ended', 'k-ended')
  const refused = await operator.decide('end', record)
  expect([refused.status, refused.body.code, refused.body.requires]).toEqual([
    409,
    'promise-at-stake',
    'live',
  ])
  const dry = await operator.decide('end', record, { dry_run: true })
  expect(dry.body).toMatchObject({ decided: false, requires: 'live', before: { state: 'live' } })
  expect((await operator.show(record)).state).toBe('live')

  const ended = await operator.decide('end', record, {
    even_though: 'live',
    fencing_token: dry.body.before.fencing_token,
  })
  expect([
    ended.status,
    ended.body.decided,
    ended.body.audited,
    ended.body.after.state,
    ended.body.after.attempt,
  ]).toEqual([200, true, true, 'expired', 1])
  // The record is under the operator's token now. What the application got is found by what is shown all the same.
  const [seen] = application.seen.filter(({ target }) => target === '/held/ended')
  const { in_application: known } = await operator.show(record)
  expect(seen?.values('fencepost-lock-id')[0]?.startsWith(known.lock_ids_begin_with)).toBe(true)
  expect(Number(seen?.values('fencepost-fencing-token')[0])).toBeLessThan(known.fencing_tokens_up_to)

  const retry = await pay('/held/ended', 'k-ended')
  expect([retry.status, attemptsOf('/held/ended')]).toEqual([201, ['1', '2']])
  const answer = await retry.text()

  // What the holder did is recorded nowhere: its own client gets what was recorded.
  const late = await comeBack()
  expect([late.headers.get('idempotency-status'), await late.text()]).toEqual(['replayed', answer])
  const again = await pay('/held/ended', 'k-ended')
  expect([again.headers.get('idempotency-status'), await again.text()]).toEqual(['replayed', answer])
  const { history } = await operator.show(record)
  expect(history.filter(({ kind }: { kind: string }) => kind === 'operator')).toMatchObject([
    { act: 'end', by: 'bob', reason: 'ticket 4711', step: 'begun', even_though: 'live' },
    { act: 'end', by: 'bob', step: 'done' },
  ])
})

test('completed by hand: the retry of the client is answered with it, and nothing is executed', async () => {
  const { record, comeBack } = await stuck('/held/by-hand', 'k-by-hand')
  const answer = { status: 202, headers: { 'content-type': 'application/json' }, body: '{"payment":"p-1"}' }
  const completed = await operator.decide('complete', record, { even_though: 'live', answer })
  expect([completed.status, completed.body.after.state]).toEqual([200, 'completed'])
  const retry = await pay('/held/by-hand', 'k-by-hand')
  expect([retry.status, retry.headers.get('idempotency-status'), await retry.text()]).toEqual([
    202,
    'replayed',
    answer.body,
  ])
  await comeBack()
  expect(await (await pay('/held/by-hand', 'k-by-hand')).text()).toBe(answer.body)
  expect(attemptsOf('/held/by-hand')).toEqual(['1'])
})

test('a recorded outcome is forgotten, or replaced, only where that is said out', async () => {
  expect((await pay('/payments', 'k-forget')).status).toBe(201)
  const record = await recordOf('/payments', 'k-forget')
  const page = await operator.show(record)
  expect(page.outcome).toMatchObject({
    kind: 'response',
    status: 201,
    body_text: expect.stringContaining('<script>'),
  })
  // Who may only look sees that there is an answer, and none of it.
  const viewed = await operatorCaller(sidecar.operator, VIEW_TOKEN).show(record)
  expect(viewed.outcome).toMatchObject({ status: 201, body_bytes: page.outcome.body_bytes })
  expect(JSON.stringify(viewed)).not.toContain('script')

  expect((await operator.decide('forget', record)).body).toMatchObject({
    code: 'promise-at-stake',
    requires: 'completed',
  })
  const forgotten = await operator.decide('forget', record, { even_though: 'completed' })
  expect([forgotten.status, forgotten.body.after.state]).toEqual([200, 'released'])
  const executed = application.seen.length
  const again = await pay('/payments', 'k-forget')
  expect([again.headers.get('idempotency-status'), application.seen.length]).toEqual([
    'created',
    executed + 1,
  ])
  expect(attemptsOf('/payments').at(-1)).toBe('1')

  const answer = { status: 200, body: 'by hand' }
  const replaced = await operator.decide('complete', record, { even_though: 'completed', answer })
  expect([replaced.status, replaced.body.after.state]).toEqual([200, 'completed'])
  expect(await (await pay('/payments', 'k-forget')).text()).toBe('by hand')
})

test('an outcome that one node damaged is read from the others, and that node is shown', async () => {
  await pay('/payments', 'k-bad-memory')
  const record = await recordOf('/payments', 'k-bad-memory')
  await damageRecord(record, servers.urls.slice(2, 3))
  const { state, damage: why, nodes } = await operator.show(record)
  expect([state, why, nodes.map(({ differs }: { differs: boolean }) => differs)]).toEqual([
    'completed',
    undefined,
    [false, false, true, false, false],
  ])
  expect(nodes[2].detail).toMatch(/^damaged: /)
})

test('an outcome that nobody can read is replaced only where that is said out, and is decided like any other then', async () => {
  await pay('/payments', 'k-damaged')
  const record = await recordOf('/payments', 'k-damaged')
  await damageRecord(record, servers.urls)
  const shown = await operator.show(record)
  expect([shown.state, shown.damage, shown.decisions.forget.possible]).toEqual([
    'damaged',
    expect.any(String),
    false,
  ])
  expect(shown.nodes.map(({ detail }: { detail: string }) => detail)).toEqual(
    Array.from({ length: 5 }, () => `damaged: ${shown.damage}`),
  )

  const answer = { status: 200, body: 'from the books' }
  const refused = await operator.decide('complete', record, { answer })
  expect(refused.body).toMatchObject({ code: 'promise-at-stake', requires: 'damaged' })
  const completed = await operator.decide('complete', record, { even_though: 'damaged', answer })
  expect([completed.status, completed.body.after.state]).toEqual([200, 'completed'])
  const executed = application.seen.length
  const again = await pay('/payments', 'k-damaged')
  expect([await again.text(), application.seen.length]).toEqual(['from the books', executed])
  const forgotten = await operator.decide('forget', record, { even_though: 'completed' })
  expect([forgotten.status, forgotten.body.after.state]).toEqual([200, 'released'])
})

test('of a stored answer is shown what was stored: without what its route redacts, and readable where nodes keep it encrypted', async () => {
  await pay('/cards', 'k-card')
  const { outcome } = await operator.show(await recordOf('/cards', 'k-card'))
  expect(JSON.parse(outcome.body_text).card.holder).toBe('Ann')
  expect(JSON.stringify(outcome)).not.toContain('4111')
  const [url] = servers.urls
  const node = new Redis(url!)
  const bytes = await node.getBuffer(await recordOf('/cards', 'k-card'))
  node.disconnect()
  expect([bytes !== null, bytes?.includes('Ann')]).toEqual([true, false])
})

test('a recorded outcome is not forgotten while a node that would bring it back is away', async () => {
  await pay('/payments', 'k-away')
  const record = await recordOf('/payments', 'k-away')
  servers.pause(4)
  try {
    const refused = await operator.decide('forget', record, { even_though: 'completed' })
    expect([refused.status, refused.body.detail]).toEqual([
      503,
      expect.stringContaining(servers.names[4] ?? ''),
    ])
    const shown = await operator.show(record)
    expect([shown.state, shown.nodes[4].state, shown.nodes[4].differs]).toEqual(['completed', 'silent', true])
  } finally {
    servers.resume(4)
  }
  await eventually('every node replies', async () => {
    const { nodes } = await operator.show(record)
    return nodes.every(({ state }: { state: string }) => state === 'completed')
  })
  expect(await (await pay('/payments', 'k-away')).headers.get('idempotency-status')).toBe('replayed')
})

test('of two operators at once one decides, and the other is told', async () => {
  const { record, comeBack } = await stuck('/held/two', 'k-two')
  const { fencing_token } = await operator.show(record)
  const body = { even_though: 'live', fencing_token }
  const both = await Promise.all([
    operator.decide('end', record, body),
    operator.decide('forget', record, body),
  ])
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
  const told = both.find(({ status }) => status === 409)?.body.code
  expect(['decision-under-way', 'record-moved-on']).toContain(told)
  await comeBack()
})

test('a reservation whose claim is ended is lost to its session, and the next session is told attempt 2', async () => {
  const api = async (path: string, body: unknown) => {
    const response = await postedJson(`${sidecar.api}${path}`, body)
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const { body: first } = await api('/v1/reservations', {
    session_id: 'one',
    reserved_value: 'order-1',
    lease: '30s',
  })
  const { reservation_id: id, fencing_token } = first
  const found = await operator.find({ reserved_value: 'order-1' })
  const [{ record }] = found.body.records
  expect((await operator.find({ reservation_id: id })).body.records[0].record).toBe(record)
  expect((await operator.decide('end', record, { even_though: 'live' })).status).toBe(200)
  expect((await api(`/v1/reservations/${id}/extend`, { fencing_token })).body.code).toBe('lease-lost')
  expect((await api(`/v1/reservations/${id}/complete`, { fencing_token, result: 1 })).body.code).toBe(
    'fenced',
  )
  const { body: second } = await api('/v1/reservations', { session_id: 'two', reserved_value: 'order-1' })
  expect(second.attempt).toBe(2)
  await api(`/v1/reservations/${second.reservation_id}/release`, { fencing_token: second.fencing_token })
})

test('the application is asked about an expired attempt, and what it says is done', async () => {
  const { record, comeBack } = await stuck('/held/asked', 'k-asked')
  expect((await operator.decide('ask', record)).body.code).toBe('decision-refused')
  await operator.decide('end', record, { even_though: 'live' })
  const expired = await operator.call('/records?state=expired')
  expect(expired.body.records.map((one: { record: string }) => one.record)).toContain(record)
  const asked = await operator.decide('ask', record)
  expect([asked.body.verdict, asked.body.after.state]).toEqual(['released', 'released'])
  await comeBack()
})

test('the application is asked, and sends the answer that it gave: a retry gets it byte for byte', async () => {
  const { record, comeBack } = await stuck('/held/reconciled', 'k-reconciled')
  await operator.decide('end', record, { even_though: 'live' })
  const answer = Buffer.from([0x25, 0x50, 0x00, 0xff, 0x0a])
  const headers = { Location: '/receipts/1', 'Content-Type': 'application/pdf', 'Set-Cookie': 'canary=1' }
  const response = { status: 203, headers, body_base64: answer.toString('base64') }
  settleReply = JSON.stringify({ outcome: 'completed', response })
  const asked = await operator.decide('ask', record)
  expect([asked.body.verdict, asked.body.after.state]).toEqual(['completed', 'completed'])
  const retry = await pay('/held/reconciled', 'k-reconciled')
  expect([
    retry.status,
    retry.headers.get('idempotency-status'),
    retry.headers.get('location'),
    retry.headers.get('content-type'),
    retry.headers.get('set-cookie'),
  ]).toEqual([203, 'replayed', '/receipts/1', 'application/pdf', null])
  expect(Buffer.from(await retry.arrayBuffer())).toEqual(answer)
  await comeBack()
  expect(attemptsOf('/held/reconciled')).toHaveLength(1)
})

test('the answer that the application sends is not kept whole where a route redacts it', async () => {
  const { record, comeBack } = await stuck('/held/redacted', 'k-redacted')
  await operator.decide('end', record, { even_though: 'live' })
  const headers = { 'Content-Type': 'application/json' }
  const body = Buffer.from('{"card":{"number":"4111-2222","holder":"Ann"}}').toString('base64')
  settleReply = JSON.stringify({
    outcome: 'completed',
    response: { status: 201, headers, body_base64: body },
  })
  await operator.decide('ask', record)
  // The claim that the operator ended stands under a token of the operator's, which the application never got.
  const lastOf = (target: string) => application.seen.findLast((one) => one.target === target)
  const got = lastOf('/held/redacted')?.values('fencepost-lock-id')[0] ?? ''
  const { lock_id: askedOf, fencing_token: token } = JSON.parse(String(lastOf('/settle')?.body))
  expect([askedOf.split('-')[0], askedOf]).toEqual([got.split('-')[0], `${got.split('-')[0]}-${token}`])
  expect(token).toBeGreaterThan(Number(got.split('-')[1]))
  const retry = await pay('/held/redacted', 'k-redacted')
  expect(await retry.text()).toBe('{"card":{"holder":"Ann"}}')
  await comeBack()
})

test('a reply of the application that contradicts itself decides nothing, and the log says why', async () => {
  const { record, comeBack } = await stuck('/held/contradicted', 'k-contradicted')
  await operator.decide('end', record, { even_though: 'live' })
  settleReply = '{"outcome":"completed","response":{"status":503}}'
  const asked = await operator.decide('ask', record)
  expect([asked.body.verdict, asked.body.after.state]).toEqual(['unknown', 'expired'])
  await eventually('the log to say why', () => logged.includes('the answer in its reply has the status 503'))
  await comeBack()
})
