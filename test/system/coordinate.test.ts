// Different requests for one entity through two sidecars, each waiting for its turn: order, cost, and a sidecar that dies.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as takes } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, SHORT_LEASE, type Sidecar, startSidecar } from '../support/sidecar.ts'

/** `/transfers`: each request in its turn; `/races`: each tries for itself. */
const CONFIG = ['coordinate', 'wait']
  .map(
    (onContention) => `  - name: ${onContention}
    match: { methods: [POST], paths: ["/${onContention === 'wait' ? 'races' : 'transfers'}"] }
    mode: header
    onContention: ${onContention}
    wait: { max: 30s, waiters: 1000 }
    entities: [{ header: x-account }]
    entityWait: 30s
`,
  )
  .join('')

async function startSidecars(servers: RedisServers, upstream: string, more: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-coordinate-'))
  const file = join(folder, 'fencepost.yaml')
  writeFileSync(file, `routes:\n${CONFIG}`)
  const env = {
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: upstream,
    FENCEPOST_CONFIG: file,
    ...more,
  }
  const sidecars = await Promise.all([startSidecar(env), startSidecar(env)])
  return {
    sidecars,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(sidecars.map((sidecar) => sidecar[Symbol.asyncDispose]()))
      rmSync(folder, { recursive: true })
    },
  }
}

function send({ proxy }: Sidecar, key: string, path = '/transfers'): Promise<Response> {
  const headers = { 'idempotency-key': key, 'x-account': '42' }
  return fetch(`${proxy}${path}`, { method: 'POST', headers, body: '{}' })
}

/** The largest ticket drawn in the only queue on this node. */
async function drawn(node: Redis): Promise<number> {
  const [line] = await node.keys('dedup::line:*')
  const value = line === undefined ? null : await node.get(line)
  return Math.max(0, ...[...(value ?? '').matchAll(/;\w+:\d+:(\d+):\d+/g)].map(([, last]) => Number(last)))
}

test('requests are executed in the order of arrival, whichever sidecar they reach', async () => {
  await using servers = await startRedisServers(5, { founded: true })
  await using application = await startCountingApplication()
  await using started = await startSidecars(servers, application.url, PATIENT)
  const node = new Redis(servers.at(0).url)
  try {
    application.hold()
    const answers = [send(started.sidecars[0], 'first')]
    await application.arrived(1)
    const names = Array.from({ length: 12 }, (_, n) => `waiting-${n}`)
    for (const [n, name] of names.entries()) {
      answers.push(send(started.sidecars[n % 3 === 0 ? 1 : 0]!, name))
      await eventually(`${name} to stand in the line`, async () => (await drawn(node)) === n + 1)
    }
    application.letGo()
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(answers.map(() => 201))
    expect(application.executions.map(({ key }) => key)).toEqual(['first', ...names])
    const tokens = application.executions.map(({ token }) => token)
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
    await eventually('the line to end', async () => (await node.keys('dedup::line:*')).length === 0)
  } finally {
    node.disconnect()
  }
})

/** Claim rounds of both, as their metrics count them. */
async function claimRounds(sidecars: readonly Sidecar[]): Promise<number> {
  const pages = await Promise.all(sidecars.map(async ({ admin }) => (await fetch(`${admin}/metrics`)).text()))
  const counted = pages.flatMap((page) => [
    ...page.matchAll(/^fencepost_quorum_attempts_total\{.*\} (\d+)$/gm),
  ])
  return counted.reduce((sum, [, rounds]) => sum + Number(rounds), 0)
}

test('coordinate costs a fraction of the claim rounds of wait', async () => {
  await using servers = await startRedisServers(5, { founded: true })
  await using application = await startSlowApplication()
  await using started = await startSidecars(servers, application.url, PATIENT)
  /** For 60 requests that come at once. */
  const roundsOf = async (path: string) => {
    const before = await claimRounds(started.sidecars)
    const all = Array.from({ length: 60 }, (_, n) => send(started.sidecars[n % 2]!, `${path}-${n}`, path))
    expect((await Promise.all(all)).map(({ status }) => status)).toEqual(all.map(() => 200))
    return (await claimRounds(started.sidecars)) - before
  }
  const [inTurn, atRandom] = [await roundsOf('/transfers'), await roundsOf('/races')]
  console.info(`claim rounds for 60 requests on one entity: ${inTurn} in turn, ${atRandom} where each tries`)
  // 60 for the requests themselves, 60 for the entity, and the vain claims of the request whose turn it is.
  // It claims as long as a turn lasts: a quarter of the others' rounds on an idle machine, up to a half on a busy one.
  expect(inTurn).toBeLessThan(atRandom * 0.75)
  expect(application.mostAtOnce()).toBe(1)
})

/** Each request takes it a while. */
async function startSlowApplication() {
  let atWork = 0
  let most = 0
  const server = createServer(async (request, response) => {
    request.resume()
    atWork += 1
    most = Math.max(most, atWork)
    await takes(20)
    atWork -= 1
    response.end('done')
  })
  const at = await listening(server)
  return {
    url: at.origin,
    mostAtOnce: () => most,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

test('when the sidecar whose turn it is dies, the others go on after its leases end', async () => {
  await using servers = await startRedisServers(5, { founded: true })
  await using application = await startCountingApplication()
  await using started = await startSidecars(servers, application.url, SHORT_LEASE)
  const [doomed, other] = started.sidecars
  const node = new Redis(servers.at(0).url)
  try {
    application.hold()
    const lost = [send(doomed!, 'held'), send(doomed!, 'head')]
    for (const one of lost) one.catch(() => {})
    await application.arrived(1)
    await eventually('the head of the line', async () => (await drawn(node)) === 1)
    const answers: Promise<Response>[] = []
    for (const n of [1, 2, 3]) {
      answers.push(send(other!, `behind-${n}`))
      await eventually('a place in the line', async () => (await drawn(node)) === n + 1)
    }
    const first = application.executions[0]?.key
    await doomed!.process.end({ signal: 'SIGKILL' })
    application.letGo()
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([201, 201, 201])
    const keys = application.executions.map(({ key }) => key)
    expect(keys).toEqual([first, 'behind-1', 'behind-2', 'behind-3'])
  } finally {
    node.disconnect()
  }
})
