/** Who may call the operator API, and what is refused before anything is decided. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { expect, test } from 'vitest'
import { OPERATOR_CALLS, type OperatorCall } from '../../../src/http/operator/calls.ts'
import { duringTests } from '../../support/during-tests.ts'
import { startOperatorApi } from '../../support/operator-api.ts'
import { OPERATE_TOKEN, VIEW_TOKEN } from '../../support/operator-caller.ts'
import { openWire } from '../../support/proxy.ts'
import { keyOf } from '../../support/redis-cluster.ts'

const api = duringTests(() => startOperatorApi({ bodyBytesMax: 2_048 }))

const calls = Object.entries(OPERATOR_CALLS) as [string, OperatorCall][]

async function send({ method, path }: OperatorCall, headers: Record<string, string>, body = '{}') {
  const url = api.origin + path.replace('{record}', encodeURIComponent(keyOf('order'))).replace('{id}', 'x')
  const response = await fetch(url, {
    method,
    headers: { ...(method === 'POST' ? { 'content-type': 'application/json' } : {}), ...headers },
    ...(method === 'POST' ? { body } : {}),
  })
  const isStream = response.headers.get('content-type') === 'text/event-stream'
  // A stream has no end: who reads no further leaves.
  if (isStream) await response.body?.cancel()
  return {
    status: response.status,
    headers: response.headers,
    body: (isStream ? {} : await response.json()) as { code?: string },
  }
}

test.each([
  ['no token', {}],
  ['an empty token', { authorization: 'Bearer ' }],
  ['a token and one character more', { authorization: `Bearer ${OPERATE_TOKEN}0` }],
  ['the first half of a token', { authorization: `Bearer ${OPERATE_TOKEN.slice(0, 16)}` }],
  ['a token of another scheme', { authorization: `Basic ${OPERATE_TOKEN}` }],
  ['a token in a cookie', { cookie: `token=${OPERATE_TOKEN}` }],
  ['two tokens', { authorization: `Bearer ${VIEW_TOKEN} ${OPERATE_TOKEN}` }],
])('%s gets 401 from every call, and learns nothing else', async (_, headers) => {
  for (const [name, call] of calls) {
    const { status, body, headers: told } = await send(call, headers)
    expect([name, status, body.code, told.get('www-authenticate')]).toEqual([
      name,
      401,
      'token-required',
      'Bearer',
    ])
  }
  const nowhere = await fetch(`${api.origin}/nowhere`, { headers })
  expect(nowhere.status).toBe(401)
})

test.each(calls)('%s is open to its role', async (_, call) => {
  const viewed = await send(call, { authorization: `Bearer ${VIEW_TOKEN}` })
  expect(viewed.status === 403).toBe(call.role === 'operate')
  expect((await send(call, { authorization: `bearer ${OPERATE_TOKEN}` })).status).not.toBe(403)
})

const decide = OPERATOR_CALLS.endClaim
const asBob = { authorization: `Bearer ${OPERATE_TOKEN}` }

test.each([
  // A page of another site can send these without being asked first, but no token.
  [
    'a form',
    { ...asBob, 'content-type': 'application/x-www-form-urlencoded' },
    'reason=because',
    415,
    'media-type-unsupported',
  ],
  [
    'plain text',
    { ...asBob, 'content-type': 'text/plain' },
    '{"reason":"because"}',
    415,
    'media-type-unsupported',
  ],
  ['no reason', asBob, '{}', 400, 'request-invalid'],
  ['an empty reason', asBob, '{"reason":""}', 400, 'request-invalid'],
  ['a misspelt member', asBob, '{"reason":"because","dryrun":true}', 400, 'request-invalid'],
  ['a switch as text', asBob, '{"reason":"because","dry_run":"true"}', 400, 'request-invalid'],
  ['no JSON', asBob, '{', 400, 'request-invalid'],
  ['a body above the limit', asBob, JSON.stringify({ reason: 'x'.repeat(3_000) }), 413, 'body-too-large'],
] as const)('a decision with %s is refused', async (_, headers, body, status, code) => {
  const refused = await send(decide, headers, body)
  expect([refused.status, refused.body.code]).toEqual([status, code])
})

/** Bug: files of the page counted as calls, so one connection without a token, whose answers nobody read, kept every operator out. */
test('a peer without a token that reads no answer keeps no operator out', async () => {
  const script = { type: 'text/javascript', body: Buffer.alloc(16 * 1024 * 1024, ' ') }
  const page = { 'index.html': script, 'app.css': script, 'app.js': script, 'icon.svg': script }
  await using paged = await startOperatorApi({ page })
  await using peer = await openWire(Number(new URL(paged.origin).port))
  peer.send('GET /page/app.js HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(40))
  // All of them came at once, and are under way with the first bytes of the first answer.
  await once(peer.socket, 'data')
  peer.socket.pause()
  expect((await paged.operator.call('/overview')).status).toBe(200)
})

test('a preflight of a browser is not answered, so that no page can call', async () => {
  const response = await fetch(`${api.origin}${decide.path}`, {
    method: 'OPTIONS',
    headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' },
  })
  expect([response.status, response.headers.get('access-control-allow-origin')]).toEqual([401, null])
})

test('no answer is a page, whatever a stored answer holds', async () => {
  const key = await api.complete('<script>alert(1)</script>')
  const { headers, body } = await api.operator.call(`/records/${encodeURIComponent(key)}`)
  expect(headers.get('content-type')).toMatch(/^application\/json/)
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  expect(headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(headers.get('cache-control')).toBe('no-store')
  expect(body.outcome.body_text).toBe('<script>alert(1)</script>')
})

test.each([
  'dedup::audit',
  'dedup::decision:x',
  'dedup:%:%:%:reservation-secret',
  `dedup:%:%:%:${'0'.repeat(64)}`,
  `dedup:shop:test:v1:${'g'.repeat(64)}`,
  '../records',
])('%s is the key of no request: it is neither shown nor decided', async (key) => {
  const { status, body } = await api.operator.call(`/records/${encodeURIComponent(key)}`)
  expect([status, body.code]).toEqual([400, 'request-invalid'])
  expect((await api.operator.decide('forget', key)).body.code).toBe('request-invalid')
})

test('an answer by hand is refused where it could not be replayed as it was given', async () => {
  const key = await api.expire('by hand')
  for (const [answer, code] of [
    [{ status: 201, body: 'x'.repeat(1_025) }, 'body-too-large'],
    [{ status: 201, headers: { 'set-cookie': 'a=b' } }, 'request-invalid'],
    [{ status: 201, headers: { 'content-type': 'a\r\nx: y' } }, 'request-invalid'],
    [{ status: 201, headers: { 'transfer-encoding': 'chunked' } }, 'request-invalid'],
    [{ status: 100 }, 'request-invalid'],
  ] as const)
    expect([answer, (await api.operator.decide('complete', key, { answer })).body.code]).toEqual([
      answer,
      code,
    ])
  expect((await api.operator.show(key)).state).toBe('expired')
})

test('a decision that could not be written down is not made', async () => {
  const key = await api.expire('unwritten')
  api.auditLog.away = true
  const refused = await api.operator.decide('forget', key)
  api.auditLog.away = false
  expect([refused.status, refused.body.code]).toEqual([503, 'quorum-unavailable'])
  expect((await api.operator.show(key)).state).toBe('expired')
})

test('dead letters beyond the largest page: one page leads to the next, and the oldest can be decided', async () => {
  const letters = Array.from({ length: 1_203 }, (_, at) => `letter:${at}`)
  for (const [at, id] of letters.entries())
    await api.auditLog.append('dead-letters', {
      id,
      kind: 'orphan',
      atWallMs: at,
      recordKey: keyOf(id),
      fields: {},
    })
  const page = async (query: string) => (await api.viewer.call(`/dead-letters?${query}`)).body
  expect((await page('')).entries).toHaveLength(200)
  const first = await page('limit=1000')
  const last = await page(`limit=1000&cursor=${first.cursor}`)
  expect([first.entries.length, last.entries.length, last.cursor]).toEqual([1_000, 203, undefined])
  expect([...last.entries, ...first.entries].map(({ id }: { id: string }) => id)).toEqual(letters)
  expect((await page('limit=9999')).entries).toHaveLength(1_000)
  const refused = await api.viewer.call('/dead-letters?cursor=1')
  expect([refused.status, refused.body.code]).toEqual([400, 'request-invalid'])
  const discarded = await api.operator.call('/dead-letters/letter:0/discard', { reason: 'ticket 4711' })
  expect(discarded.body).toEqual({ decided: true, dropped: true })
  for (const id of letters) await api.auditLog.remove('dead-letters', id)
})

test('the history of a record says how far back the audit log was searched, where it reaches further', async () => {
  const key = await api.expire('long ago')
  const note = (recordKey: string, at: number) =>
    api.auditLog.append('audit', { id: `note:${at}`, kind: 'degraded', atWallMs: at, recordKey, fields: {} })
  await note(key, 1)
  const short = await api.viewer.call(`/records/${encodeURIComponent(key)}`)
  expect([short.body.history.length, short.body.history_since]).toEqual([1, undefined])
  for (let at = 2; at <= 2_001; at += 1) await note(keyOf('other'), at)
  const long = await api.viewer.call(`/records/${encodeURIComponent(key)}`)
  expect(long.body.history).toEqual([])
  expect(long.body.history_since).toBe(new Date(2).toISOString())
  for (let at = 1; at <= 2_001; at += 1) await api.auditLog.remove('audit', `note:${at}`)
})

test('a dead letter is shown, requeued once, and then unknown', async () => {
  const key = await api.expire('letter')
  const { fencing_token: token, fingerprint } = await api.operator.show(key)
  const id = `orphan:${key.slice(-16)}:${token}`
  const fields = { token: String(token), attempt: '1', fingerprint }
  await api.auditLog.append('dead-letters', { id, kind: 'orphan', atWallMs: 1, recordKey: key, fields })
  expect((await api.viewer.call('/dead-letters')).body.entries).toMatchObject([
    { id, record: key, attempt: '1' },
  ])
  const reason = 'ticket 4711'
  const letter = `/dead-letters/${encodeURIComponent(id)}/requeue`
  expect((await api.operator.call(letter, { reason, dry_run: true })).body).toMatchObject({ decided: false })
  expect((await api.operator.show(key)).state).toBe('expired')
  expect((await api.operator.call(letter, { reason })).body).toEqual({ decided: true, dropped: true })
  expect((await api.operator.show(key)).state).toBe('released')
  expect((await api.operator.call(letter, { reason })).body.code).toBe('dead-letter-unknown')
})

test('a header above the limit ends the connection with 431', async () => {
  const { port, hostname } = new URL(api.origin)
  const status = await new Promise((resolve, reject) => {
    const sent = request(
      { host: hostname, port, headers: { authorization: `Bearer ${'x'.repeat(20_000)}` } },
      (answer) => {
        answer.resume()
        resolve(answer.statusCode)
      },
    )
    sent.on('error', reject).end()
  })
  expect(status).toBe(431)
})

/** Every decision by every role: 403 says so before anything of the record is looked at, and changes nothing. */
test.each(
  calls
    .filter(([, { role }]) => role === 'operate')
    .flatMap(([name, call]) =>
      (['live', 'expired', 'completed'] as const).map((state) => [name, state, call] as const),
    ),
)(
  '%s of a %s record is refused to the role view, and the record stays as it is',
  async (name, state, call) => {
    const of = `${name} ${state}`
    const key =
      state === 'live'
        ? (await api.claim(of)).key
        : state === 'expired'
          ? await api.expire(of)
          : await api.complete(of)
    const before = await api.operator.show(key)
    const audited = api.auditLog.entries('audit').length
    const body = JSON.stringify({
      reason: 'because',
      even_though: state === 'completed' ? 'completed' : 'live',
    })
    const refused = await fetch(
      api.origin + call.path.replace('{record}', encodeURIComponent(key)).replace('{id}', 'x'),
      {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${VIEW_TOKEN}` },
        body,
      },
    )
    const { code, detail } = (await refused.json()) as { code: string; detail: string }
    expect([refused.status, code]).toEqual([403, 'role-required'])
    expect(detail).toContain('ann has the role view')
    const { state: after, fencing_token: token, attempt } = await api.operator.show(key)
    expect([after, token, attempt]).toEqual([before.state, before.fencing_token, before.attempt])
    expect(api.auditLog.entries('audit')).toHaveLength(audited)
  },
)

/**
 * The time of a refusal depends on nothing of the token: every sent text is hashed to one length, and each hash is
 * compared with every known one by the comparison of constant time, whichever matches first.
 */
test('a wrong token is compared with every known one, by hashes of one length in constant time', () => {
  const source = readFileSync('src/http/request/access-token.ts', 'utf8')
  const body = /function matching<[\s\S]*?\n}\n/.exec(source)?.[0] ?? ''
  expect(body).toContain("createHash('sha256').update(text).digest()")
  expect(body).toContain('timingSafeEqual(given, hash(tokenOf(one)))')
  // `filter` visits all of them, where `find` and `some` end with the first; nothing else compares or returns early.
  expect(body).toContain('expected.filter(')
  expect(body.match(/\breturn\b/g)).toHaveLength(1)
  expect(body).not.toMatch(/===|!==|\.find\(|\.some\(|startsWith|\bif\b/)
})

test('tokens of any length and content get the same refusal', async () => {
  const sent = [
    'x',
    'x'.repeat(5_000),
    `${OPERATE_TOKEN.slice(0, -1)}!`,
    OPERATE_TOKEN.toUpperCase(),
    VIEW_TOKEN.slice(1),
  ]
  const answers = await Promise.all(sent.map((token) => send(decide, { authorization: `Bearer ${token}` })))
  const bodies = answers.map(({ status, body }) => {
    const { instance: _, ...told } = body as { instance?: string }
    return JSON.stringify([status, told])
  })
  expect(new Set(bodies).size).toBe(1)
})
