/** A million dead letters on every node: an answer stays as small as its page, and nothing reads all of them for it. */
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

test('a page of dead letters has its limit, and takes less than ten times as long among a thousand times as many', {
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
  /** The fastest of several: what else the machine does is no part of it. */
  const fastest = async () => {
    const took: number[] = []
    for (let asked = 0; asked < 7; asked += 1) {
      const startedMs = performance.now()
      const { status, body: told } = await operator.call('/dead-letters?limit=200')
      took.push(performance.now() - startedMs)
      expect([status, told.entries.length]).toEqual([200, 200])
    }
    return Math.min(...took)
  }
  try {
    await seed(1, FEW)
    const amongFew = await fastest()
    await seed(FEW + 1, MANY)
    const amongMany = await fastest()
    const ratio = amongMany / amongFew
    console.log(`a page among ${MANY} takes ${ratio.toFixed(2)} times what it takes among ${FEW}`)
    expect(ratio).toBeLessThan(10)
    const { body: told } = await operator.call('/dead-letters?limit=1')
    expect(told.entries.map(({ id }: { id: string }) => id)).toEqual([`orphan:${MANY}`])
    // Whatever is asked for.
    expect((await operator.call('/dead-letters?limit=9999')).body.entries).toHaveLength(1_000)
  } finally {
    for (const client of clients) client.disconnect()
  }
})
