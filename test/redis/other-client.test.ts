/** docs/internals/other-clients.md, taken at its word: frames are made from its table alone, and real nodes answer them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { PROFILES } from '../../bench/support/lease-holders.ts'
import { PLAYS } from '../../bench/support/lease-plays.ts'
import { loadBatchScript } from '../../src/redis/scripts.ts'
import { eventually } from '../support/eventually.ts'
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

function frame(values: Readonly<Record<string, string>>, outcome = ''): string {
  const given: Readonly<Record<string, string>> = {
    ...values,
    'bytes of what follows': String(outcome.length),
  }
  return FIELDS.map(({ bytes, name }) => (given[name] ?? '').padStart(bytes, '0')).join('') + outcome
}

test('the fields of the page follow one another without a gap', () => {
  expect(FIELDS.map(({ from }) => from)).toEqual([1, 2, 18, 34, 66, 70, 134, 150, 166])
  for (const [index, { from, bytes }] of FIELDS.entries())
    expect(from + bytes).toBe(FIELDS[index + 1]?.from ?? 174)
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

test('the table of leases has the rows and the columns of the program that writes it', () => {
  const [, written = ''] =
    /<!-- written by `npm run bench -- lease-profiles --write` -->\n(.*?)<!-- end -->/s.exec(page) ?? []
  const [head = [], , ...rows] = [...written.matchAll(/^\|(.*)\|$/gm)].map(([, row = '']) =>
    row.split('|').map((cell) => cell.trim()),
  )
  expect(head).toEqual(['', ...PROFILES.map(({ name }) => name)])
  expect(rows.map(([row]) => row)).toEqual(PLAYS.flatMap((play) => play.rows))
  expect(rows.flat().filter((cell) => cell === '')).toEqual([])
})

test('another client claims by the page’s frames on a majority, the sidecar finds the key held, and its token above', async () => {
  await using servers = await startRedisServers(5, { founded: true })
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: servers.nodesSetting })
  const reserve = async () => {
    const response = await fetch(`${sidecar.api}/v1/reservations`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ session_id: crypto.randomUUID(), reserved_value: 'of another client' }),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const clients = servers.urls.map((url) => new Redis(url))
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
  await fetch(`${sidecar.api}/v1/reservations/${String(id)}/release`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ fencing_token }),
  })

  const owner = 'ab'.repeat(16)
  const token = String(Number(fencing_token) + 1)
  const claim = {
    command: 'C',
    token,
    owner,
    fingerprint,
    'lease in ms': '30000',
    'lifetime of the key in ms': '60000',
  }
  const send = async (node: Redis, of: string) => {
    const epoch = (await node.get('dedup::epoch')) ?? ''
    const reply = (await node.eval(
      loadBatchScript().source,
      2,
      'dedup::epoch',
      key,
      epoch,
      '10000',
      of,
    )) as string[]
    return reply[0]?.split('\n')
  }
  try {
    const majority = clients.slice(0, 3)
    // The release above may reach a node later.
    for (const node of majority)
      await eventually('the claim is granted', async () => {
        const [head = '', answer] = (await send(node, frame(claim))) ?? []
        return /^\d{16} 1$/.test(head) && answer === 'granted 1'
      })
    expect(await reserve()).toMatchObject({ status: 409 })
    for (const node of majority)
      expect((await send(node, frame({ ...claim, command: 'R' })))?.[1]).toBe('released')
    const next = await reserve()
    expect([next.status, Number(next.body.fencing_token) > Number(token)]).toEqual([201, true])
  } finally {
    for (const client of clients) client.disconnect()
  }
})
