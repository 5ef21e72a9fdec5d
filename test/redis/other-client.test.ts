/** docs/internals/other-clients.md, taken at its word: frames are made from its table alone, and real nodes answer them. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { loadBatchScript } from '../../src/redis/scripts.ts'
import { eventually } from '../support/eventually.ts'
import { postedJson } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/internals/other-clients.md'), 'utf8')

type Field = { readonly from: number; readonly bytes: number; readonly name: string }
const FIELDS: readonly Field[] = [...page.matchAll(/^\| (\d+) \| (\d+) \| ([a-z ,]+) \|/gm)].map(
  ([, from, bytes, name = '']) => ({
    from: Number(from),
    bytes: Number(bytes),
    name: name.split(',')[0] as string,
  }),
)

function frame(values: Readonly<Record<string, string>>, outcome: Buffer = Buffer.alloc(0)): Buffer {
  const given: Readonly<Record<string, string>> = {
    ...values,
    'bytes of what follows': String(outcome.length),
  }
  const fields = FIELDS.map(({ bytes, name }) => (given[name] ?? '').padStart(bytes, '0')).join('')
  return Buffer.concat([Buffer.from(fields), outcome])
}

test('the fields of the page follow one another without a gap', () => {
  expect(FIELDS.map(({ from }) => from)).toEqual([1, 2, 18, 34, 66, 70, 134, 150, 166])
  for (const [index, { from, bytes }] of FIELDS.entries())
    expect(from + bytes).toBe(FIELDS[index + 1]?.from ?? 174)
})

test('the script is what the page says it is', () => {
  const [, opening = '', ending = '', last = ''] =
    /Its text is a line `([^`]+)`, the files of.*?, a line `(\w+)`, and `([\w.]+)`/s.exec(page) ?? []
  const order = readFileSync(join(import.meta.dirname, '../../src/redis/scripts.ts'), 'utf8')
  const lua = (file: string) => readFileSync(join(import.meta.dirname, '../../src/redis/lua', file), 'utf8')
  const rules = [...order.matchAll(/^ {2}'(\w+)',$/gm)].map(([, name]) => lua(`${name}.lua`))
  expect([opening, ...rules, ending, lua(last)].join('\n')).toBe(loadBatchScript().source)
})

test('the vectors that the page lists are those that there are', () => {
  const listed = [...page.matchAll(/`test\/vectors\/([\w-]+\.json)`/g)].map(([, file]) => file)
  const shown = [
    ...readFileSync(join(import.meta.dirname, '../vectors/README.md'), 'utf8').matchAll(
      /^\| `([\w-]+\.json)`/gm,
    ),
  ]
  expect(listed).toEqual(shown.map(([, file]) => file))
})

/** What the table says of a command: the fields that it uses, and the attempt where it has to be a certain one. */
function attemptOf(column: string): string {
  const rows = [...page.matchAll(/^\| (?:from|\d+) \|.*\|$/gm)].map(([row]) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  )
  const [head = []] = rows
  const attempt = rows.find(([, , name]) => name === 'attempt') ?? []
  return attempt[head.findIndex((cell) => cell.split(', ').includes(column))] ?? ''
}

const RETENTION_MS = 60_000

/** By the page's table of bytes. */
function outcomeBytes(head: Readonly<Record<string, unknown>>, body: Buffer = Buffer.alloc(0)): Buffer {
  const text = Buffer.from(JSON.stringify(head))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(text.length)
  const end = Buffer.alloc(6 + 4)
  end.writeUIntBE(Date.now() + RETENTION_MS, 0, 6)
  end.writeUInt32BE(RETENTION_MS / 100 + 2_000, 6)
  const rest = Buffer.concat([end, length, text, body])
  return Buffer.concat([Buffer.from([1]), createHash('sha256').update(rest).digest(), rest])
}

async function startWorld() {
  const servers = await startRedisServers(5, { founded: true })
  const sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: servers.nodesSetting })
  const clients = servers.urls.map((url) => new Redis(url))
  const reserve = async () => {
    const response = await postedJson(`${sidecar.api}/v1/reservations`, {
      session_id: crypto.randomUUID(),
      reserved_value: 'of another client',
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  // The sidecar's claim shows key and fingerprint: how they are computed is what the vectors are for.
  const ours = await reserve()
  const [first] = clients as [Redis]
  // Answered by a majority, and this node may come later.
  const [key = ''] = await eventually('the record on this node', async () => {
    const found = await first.keys('dedup:default:*')
    return found.length > 0 && found
  })
  const fingerprint = await first.getrange(key, 86, 149)
  const { reservation_id: id, fencing_token } = ours.body
  await postedJson(`${sidecar.api}/v1/reservations/${String(id)}/release`, { fencing_token })
  const token = String(Number(fencing_token) + 1)
  const claim = {
    command: 'C',
    token,
    owner: 'ab'.repeat(16),
    attempt: attemptOf('claim'),
    fingerprint,
    'lease in ms': '30000',
    'lifetime of the key in ms': String(RETENTION_MS),
  }
  const send = async (node: Redis, of: Buffer) => {
    const incarnation = (await node.get('dedup::incarnation')) ?? ''
    const reply = (await node.callBuffer(
      'EVAL',
      loadBatchScript().source,
      2,
      'dedup::incarnation',
      key,
      incarnation,
      '10000',
      of,
    )) as Buffer[]
    return reply[0]?.toString().split('\n') ?? []
  }
  return {
    clients,
    reserve,
    token,
    claim,
    send,
    /** As after its retention: no node has a record. The release above may reach a node later. */
    forgotten: () =>
      Promise.all(
        clients.map(async (node) => {
          await eventually('the release', async () => (await node.getrange(key, 1, 1)) === 'R')
          await node.del(key)
        }),
      ),
    /** The release above may reach a node later. */
    claimOn: (nodes: readonly Redis[], given: typeof claim) =>
      Promise.all(
        nodes.map((node) =>
          eventually('the claim is granted', async () => {
            const [head = '', answer] = await send(node, frame(given))
            return /^\d{16} 1$/.test(head) && answer === 'granted 1'
          }),
        ),
      ),
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.disconnect()
      await sidecar[Symbol.asyncDispose]()
      await servers[Symbol.asyncDispose]()
    },
  }
}

test('another client claims by the page’s frames on a majority, the sidecar finds the key held, and its token above', async () => {
  await using world = await startWorld()
  const { claim, reserve, send } = world
  const majority = world.clients.slice(0, 3)
  await world.claimOn(majority, claim)
  expect(await reserve()).toMatchObject({ status: 409 })
  for (const node of majority)
    expect((await send(node, frame({ ...claim, attempt: '', command: 'R' })))[1]).toBe('released')
  const next = await reserve()
  expect([next.status, Number(next.body.fencing_token) > Number(world.token)]).toEqual([201, true])
})

// Bug: the page had zeros for the attempt of a claim, the node counted on from them, and who came after it was told that nobody had begun.
test('who takes over from another client that died is told that its attempt is the second', async () => {
  await using world = await startWorld()
  await world.forgotten()
  await world.claimOn(world.clients, { ...world.claim, 'lease in ms': '300' })
  const next = await eventually('the lease is over', async () => {
    const reserved = await world.reserve()
    return reserved.status === 201 && reserved
  })
  expect(next.body).toMatchObject({ attempt: 2 })
})

test('the sidecar answers with what another client completed by the page, on a majority', async () => {
  await using world = await startWorld()
  const { claim, token } = world
  const majority = world.clients.slice(0, 3)
  await world.claimOn(majority, claim)
  const head = { kind: 'result', result: { paid: 1 }, completedAtWallMs: Date.now(), token: Number(token) }
  const done = frame({ ...claim, command: 'D', 'lease in ms': '' }, outcomeBytes(head))
  for (const node of majority) expect((await world.send(node, done))[1]).toBe('recorded')
  expect(await world.reserve()).toMatchObject({
    status: 409,
    body: { code: 'reservation-duplicate', result: { paid: 1 }, fencing_token: Number(token), attempt: 1 },
  })
})

test('another client adopts by the page what it finds on one node, and the sidecar answers with it', async () => {
  await using world = await startWorld()
  const { claim, token, clients } = world
  const [first, ...others] = clients as [Redis, ...Redis[]]
  await world.claimOn(clients, claim)
  const head = { kind: 'result', result: 'once', completedAtWallMs: Date.now(), token: Number(token) }
  const found = outcomeBytes(head)
  const complete = { ...claim, command: 'D', 'lease in ms': '' }
  expect((await world.send(first, frame(complete, found)))[1]).toBe('recorded')
  for (const node of others)
    expect((await world.send(node, frame({ ...claim, attempt: '', command: 'W' })))[1]).toBe('released')
  const mine = { owner: 'cd'.repeat(16), token: String(Number(token) + 1) }
  expect((await world.send(first, frame({ ...claim, ...mine })))[1]).toMatch(/^(completed|stored) /)
  await world.claimOn(others, { ...claim, ...mine })
  const adopt = frame({ ...complete, ...mine, 'accepted token': mine.token }, found)
  for (const node of clients) expect((await world.send(node, adopt))[1]).toBe('recorded')
  expect(await world.reserve()).toMatchObject({
    status: 409,
    body: { code: 'reservation-duplicate', result: 'once', fencing_token: Number(token) },
  })
})
