/**
 * No secret in the audit log, which the nodes keep for the operator, nor in the names of all keys there.
 * Real sidecars write an entry of each kind that a request can cause.
 */
import { Redis } from 'ioredis'
import { beforeAll, expect, test } from 'vitest'
import { deadLetters } from '../../src/cli/dead-letters.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { canary, found } from '../support/canaries.ts'
import { type CountingApplication, startCountingApplication } from '../support/counting-application.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { postedJson } from '../support/post.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { between, type Sidecar, startSidecar } from '../support/sidecar.ts'

const INPUTS = {
  key: canary('key'),
  body: canary('body'),
  authorization: canary('authorization'),
  cookie: canary('cookie'),
  client: canary('client'),
  path: canary('path'),
  query: canary('query'),
  session: canary('session'),
  value: canary('value'),
  entity: canary('entity'),
}

const stack = stackOfTests()
let servers: RedisServers
let application: CountingApplication
let sidecar: Sidecar
let env: Record<string, string>

beforeAll(async () => {
  servers = stack.use(await startRedisServers(3, { founded: true }))
  application = stack.use(await startCountingApplication())
  env = {
    ...between(servers, application),
    FENCEPOST_LEASE: '4s',
    FENCEPOST_NODE_DEADLINE: '200ms',
    FENCEPOST_CLAIM_BUDGET: '2s',
    FENCEPOST_SWEEP_INTERVAL: '1s',
    FENCEPOST_ON_QUORUM_LOSS: 'fail-open',
  }
  sidecar = stack.use(await startSidecar(env))
})

const post = (to: Sidecar, key: string) =>
  fetch(`${to.proxy}/${INPUTS.path}?token=${INPUTS.query}`, {
    method: 'POST',
    headers: {
      'idempotency-key': key,
      authorization: `Bearer ${INPUTS.authorization}`,
      cookie: INPUTS.cookie,
      'x-client-id': INPUTS.client,
    },
    body: INPUTS.body,
  })

type Written = {
  readonly kinds: ReadonlySet<string>
  readonly text: string
  readonly keys: readonly string[]
}

/** Both streams of one node, and the names of all its keys. */
async function written(node = 0): Promise<Written> {
  const client = new Redis(servers.urls[node]!)
  try {
    const rows = [
      ...(await client.xrange('dedup::audit', '-', '+')),
      ...(await client.xrange('dedup::dead-letters', '-', '+')),
    ]
    const kinds = rows.map(([, fields]) => fields[fields.indexOf('kind') + 1] ?? '')
    return { kinds: new Set(kinds), text: JSON.stringify(rows), keys: await client.keys('*') }
  } finally {
    client.disconnect()
  }
}

const entry = (kind: string) =>
  eventually(`an entry ${kind}`, async () => ((await written()).kinds.has(kind) ? true : undefined), {
    withinMs: 60_000,
  })

test('no entry of the audit log and no key on the nodes has a word of a request in it', {
  timeout: 120_000,
}, async () => {
  // A reservation that its caller forgets.
  const forgotten = await postedJson(`${sidecar.api}/v1/reservations`, {
    session_id: INPUTS.session,
    reserved_value: INPUTS.value,
    entities: [INPUTS.entity],
    lease: '100ms',
  })
  expect(forgotten.status).toBe(201)

  // A sidecar that is suspended while another takes its request over.
  application.hold()
  const first = post(sidecar, INPUTS.key)
  await application.arrived(1)
  sidecar.process.signal('SIGSTOP')
  const other = stack.use(await startSidecar(env))
  const second = eventually(
    'the request is taken over',
    async () => {
      const answer = await post(other, INPUTS.key)
      return answer.ok ? answer : undefined
    },
    { withinMs: 60_000 },
  )
  await application.arrived(2)
  application.letGo()
  await second
  sidecar.process.signal('SIGCONT')
  await first
  await entry('fenced_completion')
  await entry('orphan')

  // An operator who decides about the orphan.
  const { io, stdout } = bufferedIo(env)
  expect(await deadLetters(['list'], io)).toBe(0)
  const [id] = /orphan:\S+/.exec(stdout()) ?? []
  expect(await deadLetters(['discard', id ?? '', '--reason', 'a test', '--yes'], io)).toBe(0)
  await entry('operator')
  const all = await Promise.all([written(0), written(1), written(2)])

  // A route that lets requests through when too few nodes are left.
  await Promise.all([servers.kill(1), servers.kill(2)])
  await eventually(
    'an unprotected request',
    async () => {
      const answer = await post(other, `${INPUTS.key}-2`)
      return answer.headers.get('idempotency-status') === 'unprotected'
    },
    { withinMs: 30_000 },
  )
  await entry('degraded')
  all.push(await written())

  for (const { text, keys } of all) expect(found(text + keys.join())).toEqual([])
  expect(found(stdout())).toEqual([])
})
