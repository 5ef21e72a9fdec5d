/** A million dead letters on every node, which is more than it would keep: an answer stays as small as its page, and nothing reads all of them for it. */
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { operatorCaller, operatorTokensFile } from '../support/operator-caller.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'

const FEW = 1_000
const MANY = 1_000_000
const STEP = 50_000

/** As `audit-log.ts` writes them, past its own limit of 10,000. */
const SEED = `for at = ARGV[1], ARGV[2] do
  redis.call('XADD', KEYS[1], '*', 'id', 'orphan:' .. at, 'kind', 'orphan', 'at', at, 'body', ARGV[3])
end`

type Cost = { readonly commands: number; readonly bytes: number }

async function costOn(clients: readonly Redis[]): Promise<Cost> {
  const told = await Promise.all(
    clients.map(async (client) => (await client.info('commandstats')) + (await client.info('stats'))),
  )
  const sumOf = (pattern: RegExp) =>
    told.flatMap((text) => [...text.matchAll(pattern)]).reduce((sum, [, found]) => sum + Number(found), 0)
  return {
    commands: sumOf(/^cmdstat_x[a-z|]+:calls=(\d+)/gm),
    bytes: sumOf(/^total_net_output_bytes:(\d+)/gm),
  }
}

test('a page of dead letters has its limit, and looks at no more than the 11,000 newest of a million', {
  timeout: 300_000,
}, async () => {
  await using servers = await startRedisServers(3, { founded: true })
  using tokens = operatorTokensFile()
  await using sidecar = await startSidecar(
    {
      ...PATIENT,
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      FENCEPOST_PROXY_LISTEN: 'off',
      FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:0',
      FENCEPOST_OPERATOR_TOKENS_FILE: tokens.path,
      FENCEPOST_SWEEP_INTERVAL: '1h',
    },
    { startWithinMs: 60_000 },
  )
  const operator = operatorCaller(sidecar.operator)
  const body = JSON.stringify({
    recordKey: `dedup:default:default:v1:${'0'.repeat(64)}`,
    fields: { token: '1' },
  })
  const clients = servers.urls.map((url) => new Redis(url))
  const seed = async (from: number, until: number) => {
    for (let at = from; at <= until; at += STEP)
      for (const client of clients)
        await client.eval(SEED, 1, 'dedup::dead-letters', at, Math.min(until, at + STEP - 1), body)
  }
  /** What the nodes do for one page: how many commands on streams, in scripts as well, and how many bytes they send. */
  const pageCosts = async (): Promise<Cost> => {
    const before = await costOn(clients)
    const { status, body: told } = await operator.call('/dead-letters?limit=200')
    expect([status, told.entries.length]).toEqual([200, 200])
    const after = await costOn(clients)
    return { commands: after.commands - before.commands, bytes: after.bytes - before.bytes }
  }
  try {
    await seed(1, FEW)
    const amongFew = await pageCosts()
    expect(amongFew.commands).toBeGreaterThanOrEqual(clients.length)
    await seed(FEW + 1, MANY)
    const amongMany = await pageCosts()
    console.log(
      `a page among ${FEW}: ${JSON.stringify(amongFew)}, among ${MANY}: ${JSON.stringify(amongMany)}`,
    )
    // A node keeps 10,000 and a page looks at 11,000 of them, in pieces of 1,000; all of them would be a thousand times as much.
    expect(amongMany.commands).toBeLessThanOrEqual(12 * clients.length)
    expect(amongMany.bytes).toBeLessThan(20 * amongFew.bytes)
    const { body: told } = await operator.call('/dead-letters?limit=1')
    expect(told.entries.map(({ id }: { id: string }) => id)).toEqual([`orphan:${MANY}`])
    // Whatever is asked for.
    expect((await operator.call('/dead-letters?limit=9999')).body.entries).toHaveLength(1_000)
  } finally {
    for (const client of clients) client.disconnect()
  }
})
