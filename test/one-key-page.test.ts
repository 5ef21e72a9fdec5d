/** Every `fencepost` line of docs/operations/one-key.md is run as it stands there, on five real nodes, and a real sidecar. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { program } from '../src/cli/program.ts'
import { cursorOf, NEWEST } from '../src/core/coordination/audit-log.ts'
import { createRedisAuditLog } from '../src/redis/audit-log.ts'
import { systemClock } from '../src/system/clock.ts'
import { bufferedIo } from './support/buffered-io.ts'
import { damageRecord } from './support/damaged-record.ts'
import { eventually } from './support/eventually.ts'
import {
  COMMAND_LINES,
  ONE_KEY_PAGE,
  REQUEST_OF_PAGE,
  SETTINGS_OF_PAGE,
  tokensFileOfPage,
  wordsOf,
} from './support/one-key-page.ts'
import { operatorCaller } from './support/operator-caller.ts'
import { type OperatorScene, openOperatorScene } from './support/operator-scene.ts'
import { postedJson } from './support/post.ts'

const KEY = 'order-4711'
const VALUE = 'payment:order-4711'
const BY_KEY = { key: { method: 'POST', path: '/payments', idempotency_key: KEY } }
const BY_VALUE = { reserved_value: VALUE }
const tokens = tokensFileOfPage()
const folder = mkdtempSync(join(tmpdir(), 'fencepost-one-key-'))
const file = (name: string, content: string) => {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}

let scene: OperatorScene
let operator: ReturnType<typeof operatorCaller>
/** Answers that the application holds back. */
const held: ServerResponse[] = []
let holds = false
const variables: Record<string, string> = {}

beforeAll(async () => {
  file('.fencepost-token', `${tokens.tokenOf('bob')}\n`)
  file('answer.json', '{"payment":"by hand"}')
  file('result.json', '"by hand"')
  file('request.json', REQUEST_OF_PAGE)
  const routes = `routes:
  - name: payments
    match: { methods: [POST], paths: [/payments] }
    mode: header
  - name: transfers
    match: { methods: [POST], paths: ["/accounts/{id}/transfers"] }
    mode: header
    entities: [{ path: id }]
`
  scene = await openOperatorScene(
    {},
    {
      ...SETTINGS_OF_PAGE,
      FENCEPOST_OPERATOR_LISTEN: SETTINGS_OF_PAGE.FENCEPOST_OPERATOR_LISTEN?.replace(/:\d+$/, ':0') ?? '',
      FENCEPOST_OPERATOR_TOKENS_FILE: file('operators', tokens.content),
      FENCEPOST_CONFIG: file('fencepost.yaml', routes),
      FENCEPOST_SETTLE_PATH: '/settle',
      FENCEPOST_OUTCOME_CACHE: '0B',
    },
  )
  operator = operatorCaller(scene.sidecar.operator, tokens.tokenOf('bob'))
  scene.application.respond = ({ target }, response) => {
    if (target === '/settle') return void response.end('{"outcome":"released"}')
    if (holds) return void held.push(response)
    return void response.writeHead(201, { 'content-type': 'application/json' }).end('{"payment":"executed"}')
  }
})
afterAll(async () => {
  for (const response of held) response.end()
  await scene?.[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

/** One line of the page, as its reader runs it. */
async function run(line: string): Promise<{ readonly exit: number; readonly out: string }> {
  const env = { HOME: folder, ...variables, PATH: process.env.PATH ?? '' }
  const words = wordsOf(line, env, (script) =>
    script
      .replaceAll('http://127.0.0.1:8083', scene.sidecar.operator)
      .replaceAll('0123456789abcdef', variables.KEY_HASH ?? ''),
  )
  const { io, stdout, stderr } = bufferedIo({
    FENCEPOST_REDIS_NODES: scene.servers.nodesSetting,
    FENCEPOST_UPSTREAM: scene.application.origin,
    FENCEPOST_LEASE: '3m',
    FENCEPOST_NODE_DEADLINE: '1s',
    FENCEPOST_CLAIM_BUDGET: '5s',
  })
  const readBytes = (path: string) => readFileSync(path.startsWith('/') ? path : join(folder, path))
  const exit = await program(words, { ...io, readBytes, readFile: (path) => readBytes(path).toString() })
  return { exit, out: stdout() + stderr() }
}

const post = (path: string, key: string) =>
  fetch(`${scene.sidecar.proxy}${path}`, {
    method: 'POST',
    headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
    body: '{"amount":4200,"currency":"EUR"}',
  })

/** A request that its application holds: live until it is let go. */
async function live(path = '/payments', key = KEY): Promise<() => Promise<Response>> {
  holds = true
  const before = held.length
  const client = post(path, key)
  client.catch(() => {})
  await eventually('the application to have it', () => held.length > before)
  holds = false
  return async () => {
    held.at(-1)?.writeHead(201).end('late')
    return client
  }
}

async function recordOf(find: object): Promise<string> {
  return (await operator.find(find)).body.records[0].record
}

/** An attempt of which nobody knows whether it was executed. */
async function expired(): Promise<string> {
  const letGo = await live()
  const record = await recordOf(BY_KEY)
  await operator.decide('end', record, { even_though: 'live' })
  await letGo()
  expect((await operator.show(record)).state).toBe('expired')
  return record
}

/** Nobody has sent it: the next line begins anew. */
async function forgotten(find: object): Promise<void> {
  const found = await operator.find(find)
  const record = found.body.records?.[0]
  if (record === undefined || record.state === 'released' || record.state === 'absent') return
  const said = record.state === 'expired' ? {} : { even_though: record.state }
  expect(await operator.decide('forget', record.record, said)).toMatchObject({ status: 200 })
}

let sessions = 0
async function call(value: string): Promise<Record<string, unknown>> {
  sessions += 1
  const response = await postedJson(`${scene.sidecar.api}/v1/reservations`, {
    session_id: `s-${sessions}`,
    reserved_value: value,
    lease: '60s',
  })
  return (await response.json()) as Record<string, unknown>
}

async function reserved(value: string): Promise<Record<string, unknown>> {
  const answer = await call(value)
  expect(answer).toMatchObject({ fencing_token: expect.any(Number) })
  return answer
}

const reservedAnew = async () => {
  await forgotten(BY_VALUE)
  variables.RESERVATION_ID = String((await reserved(VALUE)).reservation_id)
}

const underWay = () => forgotten(BY_KEY).then(() => live())
const unknown = () => forgotten(BY_KEY).then(expired)
const again = () => post('/payments', KEY)
const attemptsOfKey = () => scene.attemptsOf(KEY).at(-1)

async function endOf(find: object): Promise<void> {
  expect((await operator.decide('end', await recordOf(find), { even_though: 'live' })).status).toBe(200)
}

/** An expired claim, and what the sweeper writes when it finds it. */
async function letter(): Promise<void> {
  const recordKey = await unknown()
  const { attempt, fencing_token: token, fingerprint } = await operator.show(recordKey)
  const clients = scene.servers.urls.map((url) => new Redis(url))
  const auditLog = createRedisAuditLog({ clients: () => clients, deadlineMs: 2_000, clock: systemClock })
  variables.ID = `orphan:${recordKey.slice(-16)}:${token}`
  const fields = { token: String(token), attempt: String(attempt), fingerprint }
  const entry = { id: variables.ID, kind: 'orphan', atWallMs: Date.now(), recordKey, fields } as const
  expect(await auditLog.append('dead-letters', entry)).toBe(true)
  for (const client of clients) client.disconnect()
}

type Scene = {
  /** What stands before the line is run. */
  readonly given?: () => Promise<unknown>
  readonly exit?: number
  readonly out: RegExp
  /** What is seen after it. */
  readonly seen?: () => Promise<unknown>
}

/** Of each line of the page what stands before it, and what its reader sees and finds after it. */
const SCENES: Readonly<Record<string, Scene>> = {
  'fencepost records show $O --path /payments --key order-4711': {
    given: underWay,
    out: /^state +live \(5 nodes/m,
  },
  'fencepost records show $O 0123456789abcdef': {
    given: async () => {
      variables.KEY_HASH = (await operator.find(BY_KEY)).body.records[0].key_hash.slice(0, 16)
    },
    out: /^state +live/m,
  },
  'fencepost records show $O --request-file request.json': { out: /^state +live/m },
  'fencepost records show $O --value payment:order-4711': { given: reservedAnew, out: /^state +live/m },
  'fencepost records show $O --reservation "$RESERVATION_ID"': { out: /^state +live/m },
  'fencepost records list $O live': { out: /live.*\n.*live/ },
  'fencepost records list $O expired': { given: unknown, out: /expired/ },
  'fencepost records list $O decisions': {
    given: () => unknown().then(again),
    out: /acquired +201 .*attempt 2/,
  },
  'fencepost records list $O dead-letters': { given: letter, out: /orphan.*orphan:/ },
  'fencepost records requeue $O "$ID" --reason "$WHY" --yes': {
    out: /^requeue: done/,
    seen: async () => expect([(await again()).status, attemptsOfKey()]).toEqual([201, '1']),
  },
  'fencepost records discard $O "$ID" --completed --reason "$WHY" --yes': {
    given: letter,
    out: /^discard: done/,
    seen: async () => expect((await again()).status).toBe(410),
  },
  'fencepost records list $O dead-letters --before "$CURSOR"': {
    given: async () => {
      await letter()
      variables.CURSOR = cursorOf({ ...NEWEST, id: 'after all' })
    },
    out: /orphan/,
  },
  'fencepost records forget $O $R --reason "$WHY"': {
    given: unknown,
    exit: 64,
    out: /first attempt again[\s\S]*add --fencing-token \d+ --yes/,
    seen: async () => expect((await operator.show(await recordOf(BY_KEY))).state).toBe('expired'),
  },
  'fencepost records forget $O $R --reason "$WHY" --fencing-token "$TOKEN" --yes': {
    given: async () => {
      await unknown()
      variables.TOKEN = String((await operator.show(await recordOf(BY_KEY))).fencing_token)
    },
    out: /^forget: done/,
    seen: async () => expect([(await again()).status, attemptsOfKey()]).toEqual([201, '1']),
  },
  'fencepost records forget $O $R --reason "$WHY" --yes': {
    given: unknown,
    out: /^forget: done/,
    seen: async () => expect([(await again()).status, attemptsOfKey()]).toEqual([201, '1']),
  },
  'fencepost records end $O $R --reason "$WHY" --even-though live --yes': {
    given: underWay,
    out: /^end: done/,
    seen: async () => expect([(await again()).status, attemptsOfKey()]).toEqual([201, '2']),
  },
  'fencepost records complete $O $R --reason "$WHY" --status 201 --header "content-type: application/json" --body-file answer.json --yes':
    {
      given: unknown,
      out: /^complete: done/,
      seen: async () => {
        const answer = await again()
        expect([answer.status, answer.headers.get('content-type')]).toEqual([201, 'application/json'])
        expect(await answer.json()).toEqual({ payment: 'by hand' })
      },
    },
  'fencepost records complete $O --value payment:order-4711 --reason "$WHY" --result-file result.json --yes':
    {
      given: async () => {
        await reservedAnew()
        await endOf(BY_VALUE)
      },
      out: /^complete: done/,
      seen: async () =>
        expect(await call(VALUE)).toMatchObject({ reservation_status: 'DUPLICATE', result: 'by hand' }),
    },
  'fencepost records complete $O $R --reason "$WHY" --not-kept --yes': {
    given: unknown,
    out: /^complete: done/,
    seen: async () => {
      const answer = await again()
      expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([
        410,
        'response-not-stored',
      ])
    },
  },
  'fencepost records ask $O $R --reason "$WHY" --yes': {
    given: unknown,
    out: /^the application says: released$/m,
    seen: async () => expect([(await again()).status, attemptsOfKey()]).toEqual([201, '1']),
  },
  'fencepost records forget $O $R --reason "$WHY" --even-though completed --yes': {
    out: /^forget: done/,
    seen: async () => expect([(await again()).status, attemptsOfKey()]).toEqual([201, '1']),
  },
  'fencepost records complete $O $R --reason "$WHY" --not-kept --even-though damaged --yes': {
    given: async () => {
      await forgotten(BY_KEY)
      expect((await again()).status).toBe(201)
      await damageRecord(await recordOf(BY_KEY), scene.servers.urls)
      expect((await again()).status).toBe(502)
    },
    out: /^complete: done/,
    seen: async () => expect((await again()).status).toBe(410),
  },
  'fencepost dead-letters list': { given: letter, out: /orphan/ },
  'fencepost dead-letters requeue "$ID" --reason "$WHY"': {
    exit: 64,
    out: /first attempt again[\s\S]*add --yes/,
    seen: async () => expect((await operator.show(await recordOf(BY_KEY))).state).toBe('expired'),
  },
  'fencepost dead-letters requeue "$ID" --reason "$WHY" --by ann --yes': {
    out: /^requeue: done/,
    seen: async () => expect([(await again()).status, attemptsOfKey()]).toEqual([201, '1']),
  },
  'fencepost dead-letters discard "$ID" --completed --reason "$WHY" --by ann --yes': {
    given: letter,
    out: /^discard: done/,
    seen: async () => expect((await again()).status).toBe(410),
  },
  'fencepost dead-letters list --limit 1000 --before "$CURSOR"': {
    given: async () => {
      await letter()
      variables.CURSOR = cursorOf({ ...NEWEST, id: 'after all' })
    },
    out: /orphan/,
  },
  'fencepost records show $O --value lock:account-42': {
    given: () => reserved('lock:account-42'),
    out: /^state +live/m,
  },
  'fencepost records end $O --value lock:account-42 --reason "$WHY" --even-though live --yes': {
    out: /^end: done/,
    seen: () => reserved('lock:account-42'),
  },
  'fencepost records end $O --value payment:order-4711 --reason "$WHY" --even-though live --yes': {
    given: reservedAnew,
    out: /^end: done/,
    seen: () => reserved(VALUE),
  },
  'fencepost records show $O --entity account-42': {
    given: () => live('/accounts/account-42/transfers', 'transfer-1'),
    out: /^state +live/m,
  },
  'fencepost records end $O --entity account-42 --reason "$WHY" --even-though live --yes': {
    out: /^end: done/,
  },
}

test('the page has these lines, and each is run', () => {
  expect(COMMAND_LINES.toSorted()).toEqual(Object.keys(SCENES).toSorted())
})

describe.each(COMMAND_LINES.filter((line) => line in SCENES))('%s', (line) => {
  test('does what the page says', async () => {
    const { given, exit = 0, out, seen } = SCENES[line]!
    await given?.()
    const ran = await run(line)
    expect(ran.out).toMatch(out)
    expect(ran.exit).toBe(exit)
    await seen?.()
  })
})

test('what `show` prints has the lines of the page, in its order', async () => {
  await underWay()
  const labels = [
    ...ONE_KEY_PAGE.matchAll(/^ {4}(record|state|attempt|lease left|held by|application) {2}/gm),
  ]
  expect(labels.length).toBe(6)
  const { out } = await run('fencepost records show $O --path /payments --key order-4711')
  const printed = out.split('\n').flatMap((row) => labels.filter(([, label]) => row.startsWith(`${label} `)))
  expect(printed.map(([, label]) => label)).toEqual(labels.map(([, label]) => label))
})

describe('the exit codes of the page', () => {
  test.each([
    [1, 'fencepost records show $O ffffffffffffffff'],
    [64, 'fencepost records forget $O $R'],
    [69, 'fencepost records list --operator http://127.0.0.1:9 --token-file $HOME/.fencepost-token live'],
    [78, 'fencepost records list --operator http://127.0.0.1:9 --token-file $HOME/none live'],
  ])('%d: %s', async (exit, line) => {
    expect(ONE_KEY_PAGE).toMatch(new RegExp(`^\\| ${exit} \\|`, 'm'))
    expect((await run(line)).exit).toBe(exit)
  })
})
