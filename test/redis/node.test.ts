/** The adapter in front of one real server: every failure is an answer, never an exception, and never "free". */

import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLeases } from '../../src/core/claims/leases.ts'
import type { Clock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/events.ts'
import type { NodeAnswer } from '../../src/core/ports.ts'
import type { RecordCommand } from '../../src/core/record/record.ts'
import { tokenAt } from '../../src/core/record/token.ts'
import { createRedisClient } from '../../src/redis/connect.ts'
import { INCARNATION_KEY } from '../../src/redis/keys.ts'
import { BATCH_MAX_BYTES, BATCH_MAX_COMMANDS, GATHER_MS, MAX_IN_FLIGHT_CALLS } from '../../src/redis/node.ts'
import { loadBatchScript } from '../../src/redis/scripts.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { type OpenNode, openRedisNode } from '../support/redis-node.ts'
import { startRedisServers } from '../support/redis-servers.ts'

let opened: OpenNode
/** Another client, for the actions of an operator or an accident. */
let operator: Redis
let keyCount = 0

const servers = duringTests(() => startRedisServers(1))
beforeAll(async () => {
  opened = await openRedisNode({ url: servers.at(0).url })
  operator = new Redis(servers.at(0).url)
  await operator.script('LOAD', loadBatchScript().source)
})
afterAll(async () => {
  operator.disconnect()
  await opened[Symbol.asyncDispose]()
})

const OWNER = 'a'.repeat(32)
const FINGERPRINT = 'f'.repeat(64)

function newKey(): string {
  keyCount += 1
  return `dedup:node:${keyCount}`
}

function claim(key: string, token = tokenAt(Date.now())): RecordCommand {
  return {
    kind: 'claim',
    key,
    token,
    owner: OWNER,
    leaseMs: 10_000,
    fingerprint: FINGERPRINT,
    keyTtlMs: 60_000,
  }
}

function complete(key: string, outcome: Buffer, token = tokenAt(Date.now())): RecordCommand {
  return {
    kind: 'complete',
    key,
    token,
    owner: OWNER,
    fingerprint: FINGERPRINT,
    attempt: 1,
    outcome,
    keyTtlMs: 60_000,
  }
}

/** One of each command, on one key, and all of one token: a millisecond may pass in between. */
function everyCommand(key: string): RecordCommand[] {
  const token = tokenAt(Date.now())
  const claimant = { key, token, owner: OWNER, keyTtlMs: 60_000 }
  return [
    claim(key, token),
    { kind: 'renew', ...claimant, leaseMs: 10_000, fingerprint: FINGERPRINT, attempt: 1 },
    complete(key, Buffer.from('x'), token),
    { kind: 'release', ...claimant },
    { kind: 'read', key },
  ]
}

async function calls(client: Redis): Promise<number> {
  const info = await client.info('commandstats')
  const count = (command: string) =>
    Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(info)?.[1] ?? 0)
  return count('evalsha') + count('eval')
}

describe('batching', () => {
  test('commands of one turn travel in one call, in order', async () => {
    const before = await calls(operator)
    const keys = Array.from({ length: 50 }, newKey)
    const answers = await Promise.all(keys.map((key) => opened.node.execute(claim(key))))
    expect(answers.every(({ kind }) => kind === 'granted')).toBe(true)
    expect((await calls(operator)) - before).toBe(1)
  })

  test(`a call has at most ${BATCH_MAX_COMMANDS} commands`, async () => {
    const before = await calls(operator)
    const keys = Array.from({ length: 2 * BATCH_MAX_COMMANDS + 1 }, newKey)
    const answers = await Promise.all(keys.map((key) => opened.node.execute(claim(key))))
    expect(answers.every(({ kind }) => kind === 'granted')).toBe(true)
    expect((await calls(operator)) - before).toBe(3)
  })

  test('a call has a bounded size, and a single larger command still travels', async () => {
    const before = await calls(operator)
    const sizes = [BATCH_MAX_BYTES * 0.6, BATCH_MAX_BYTES * 0.6, BATCH_MAX_BYTES * 2]
    const answers = await Promise.all(
      sizes.map((size) => opened.node.execute(complete(newKey(), Buffer.alloc(size)))),
    )
    expect(answers.map(({ kind }) => kind)).toEqual(['recorded', 'recorded', 'recorded'])
    expect((await calls(operator)) - before).toBe(3)
  })

  /** A node that is stopped until `resume`, and whose time to gather ends when the test says so. */
  async function standingStill() {
    const own = await startRedisServers(1)
    let gathered = () => {}
    const timer: typeof systemClock.timer = (delayMs, fire) => {
      if (delayMs !== GATHER_MS) return systemClock.timer(delayMs, fire)
      gathered = fire
      return { cancel: () => {} }
    }
    const other = await openRedisNode({ url: own.at(0).url }, { clock: { ...systemClock, timer } })
    const watcher = new Redis(own.at(0).url)
    await watcher.script('LOAD', loadBatchScript().source)
    const before = await calls(watcher)
    own.pause(0)
    const asked: Promise<NodeAnswer>[] = []
    return {
      askInATurn: async () => {
        asked.push(other.node.execute(claim(newKey())))
        await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
      },
      gathered: () => gathered(),
      callsWhenItGoesOn: async () => {
        own.resume(0)
        for (const answer of await Promise.all(asked)) expect(answer).toMatchObject({ kind: 'granted' })
        return (await calls(watcher)) - before
      },
      [Symbol.asyncDispose]: async () => {
        watcher.disconnect()
        await other[Symbol.asyncDispose]()
        await own[Symbol.asyncDispose]()
      },
    }
  }

  test('commands wait for the answer to the call before, and travel together', async () => {
    await using node = await standingStill()
    for (let turn = 0; turn < 4; turn += 1) await node.askInATurn()
    expect(await node.callsWhenItGoesOn()).toBe(2)
  })

  test(`commands wait no longer than ${GATHER_MS} ms for the call before`, async () => {
    await using node = await standingStill()
    for (let turn = 0; turn < 3; turn += 1) await node.askInATurn()
    node.gathered()
    for (let turn = 0; turn < 3; turn += 1) await node.askInATurn()
    expect(await node.callsWhenItGoesOn()).toBe(3)
  })
})

describe('a record that is not ours', () => {
  const key = 'dedup:damaged'
  const intact = `1C${'1'.repeat(16)}${'0'.repeat(16)}${'a'.repeat(32)}${'1'.repeat(16)}0001${'f'.repeat(64)}${'1'.repeat(16)}`
  const put = (at: number, text: string) => intact.slice(0, at) + text + intact.slice(at + text.length)

  test('the intact record of these tests is ours', async () => {
    await operator.set(key, intact)
    expect(await opened.node.execute({ kind: 'read', key })).toMatchObject({ record: { state: 'claimed' } })
  })

  test('a claim that is kept is stored as a claim, with 1 as accepted token: an earlier build reads it', async () => {
    const kept = newKey()
    const token = tokenAt(Date.now())
    const renewal = { ...claim(kept, token), kind: 'renew', attempt: 1 } as RecordCommand
    for (const command of [claim(kept, token), renewal]) await opened.node.execute(command)
    const packed = (await operator.get(kept)) ?? ''
    expect([packed.slice(0, 2), packed.slice(18, 34)]).toEqual(['1C', '1'.padStart(16, '0')])
    expect(packed).toHaveLength(intact.length)
    expect(await opened.node.execute(claim(kept, token + 1))).toMatchObject({ kind: 'held', fence: token })
  })

  test.each<[string, () => Promise<unknown>, string]>([
    ['a list', () => operator.rpush(key, 'x'), 'WRONGTYPE'],
    ['a hash', () => operator.hset(key, 'x', 'y'), 'WRONGTYPE'],
    ['a short string', () => operator.set(key, 'x'), 'damaged record: 1 bytes'],
    ['a header that was cut', () => operator.set(key, intact.slice(0, 165)), 'damaged record: 165 bytes'],
    ['a later version', () => operator.set(key, put(0, '2')), 'version 2, and 1 is known'],
    ['no version', () => operator.set(key, put(0, '!')), 'damaged record: unknown version'],
    ['a field that looks like two', () => operator.set(key, put(90, ' ')), 'damaged record'],
    ['a field that looks like two lines', () => operator.set(key, put(90, '\n')), 'damaged record'],
    ['an accepted token that is no number', () => operator.set(key, put(18, 'zzzz')), 'damaged record'],
    ['an unknown state', () => operator.set(key, put(1, 'X')), 'damaged record'],
    ['a fence that is no number', () => operator.set(key, put(2, 'zzzz')), 'damaged record'],
    ['a lease end that is no number', () => operator.set(key, put(66, 'zzzz')), 'damaged record'],
    ['an attempt that is no number', () => operator.set(key, put(82, 'z')), 'damaged record'],
  ])(
    '%s: every command is refused with the reason, the record stays, its neighbours are served',
    async (_, damage, reason) => {
      await operator.del(key)
      await damage()
      const before = await operator.dumpBuffer(key)
      const neighbour = newKey()
      const answers = await Promise.all([
        ...everyCommand(key).map((command) => opened.node.execute(command)),
        opened.node.execute(claim(neighbour)),
      ])
      for (const answer of answers.slice(0, -1)) {
        expect(answer).toMatchObject({
          kind: 'unreachable',
          reason: 'error',
          detail: expect.stringContaining(reason),
        })
      }
      expect(answers.at(-1)).toMatchObject({ kind: 'granted' })
      expect(await operator.dumpBuffer(key)).toEqual(before)
    },
  )

  // The claim of a stored outcome is decided in the loop of the script, by other looks at its header than the rules'.
  test.each<[string, number, string]>([
    ['version', 0, '!'],
    ['later version', 0, '2'],
    ['state', 1, 'X'],
    ['fence', 2, 'zzzz'],
    ['fence that begins with a space', 2, ' '],
    ['accepted token', 18, 'zzzz'],
    ['accepted token that ends with a space', 33, ' '],
    ['end', 66, 'zzzz'],
    ['attempt', 82, 'z'],
    ['fingerprint', 90, ' '],
  ])(
    'a stored outcome with a damaged %s: its duplicate is refused, and the record stays',
    async (_, at, text) => {
      const stored = newKey()
      const token = tokenAt(Date.now())
      for (const command of [claim(stored, token), { ...complete(stored, Buffer.from('x')), token }])
        expect((await opened.node.execute(command)).kind).toMatch(/granted|recorded/)
      await operator.pexpire(stored, 600_000)
      expect(await opened.node.execute(claim(stored, token + 1))).toMatchObject({
        kind: 'completed',
        promised: true,
      })
      await operator.setrange(stored, at, text)
      const before = await operator.get(stored)
      expect(await opened.node.execute(claim(stored, token + 2))).toMatchObject({
        kind: 'unreachable',
        reason: 'error',
        detail: expect.stringMatching(/damaged record|a later fencepost wrote this record/),
      })
      expect(await operator.get(stored)).toBe(before)
    },
  )

  test('a fence above 2^53, which the script can compare and we can not', async () => {
    await operator.set(key, put(2, '9'.repeat(16)))
    expect(await opened.node.execute({ kind: 'read', key })).toMatchObject({
      kind: 'unreachable',
      detail: expect.stringContaining('above 2^53'),
    })
  })

  test.each([
    ['an owner of another length', { owner: 'short' }],
    ['a fingerprint of another length', { fingerprint: 'f' }],
  ])('%s is refused before it shifts the fields after it', async (_, change) => {
    const fresh = newKey()
    const command = { ...claim(fresh), ...change } as RecordCommand
    expect(await opened.node.execute(command)).toMatchObject({
      kind: 'unreachable',
      detail: expect.stringContaining('does not fit the record'),
    })
    expect(await operator.exists(fresh)).toBe(0)
  })
})

describe('a failing server', () => {
  test('a server that forgot the script gets it again, without a lost command', async () => {
    await operator.script('FLUSH')
    const answers = await Promise.all([newKey(), newKey()].map((key) => opened.node.execute(claim(key))))
    expect(answers.map(({ kind }) => kind)).toEqual(['granted', 'granted'])
    expect(await operator.script('EXISTS', loadBatchScript().sha1)).toEqual([1])
  })

  test('a server that lost its incarnation executes commands, and its answers do not count', async () => {
    const key = newKey()
    await operator.rename(INCARNATION_KEY, 'incarnation:aside')
    expect(await opened.node.execute(claim(key))).toMatchObject({ kind: 'quarantined' })
    await operator.rename('incarnation:aside', INCARNATION_KEY)
    expect(await opened.node.execute({ kind: 'read', key })).toMatchObject({ record: { state: 'claimed' } })
  })

  test('a full server refuses writes, and still reads', async () => {
    await operator.config('SET', 'maxmemory', '1')
    try {
      const [key, other] = [newKey(), newKey()]
      for (const command of [claim(key), complete(other, Buffer.from('x'))]) {
        expect(await opened.node.execute(command)).toMatchObject({
          kind: 'unreachable',
          reason: 'refused',
          full: true,
          detail: expect.stringContaining('OOM'),
        })
      }
      expect(await opened.node.execute({ kind: 'read', key })).toMatchObject({
        kind: 'record',
        record: undefined,
      })
    } finally {
      await operator.config('SET', 'maxmemory', '0')
    }
  })

  test('a server that became a replica refuses writes', async () => {
    const key = newKey()
    // It follows a closed port; it keeps its data.
    await operator.call('REPLICAOF', '127.0.0.1', '1')
    try {
      expect(await opened.node.execute(claim(key))).toMatchObject({
        kind: 'unreachable',
        detail: expect.stringContaining('READONLY'),
      })
    } finally {
      await operator.call('REPLICAOF', 'NO', 'ONE')
    }
    expect(await opened.node.execute(claim(key))).toMatchObject({ kind: 'granted' })
  })

  test('a stopped server yields timeouts, is not flooded, and serves again when it resumes', async () => {
    await using own = await startRedisServers(1)
    await using other = await openRedisNode({ url: own.at(0).url }, { deadlineMs: 60 })
    own.pause(0)
    const reasons: string[] = []
    for (let call = 0; call < MAX_IN_FLIGHT_CALLS + 5; call += 1) {
      const answer = await other.node.execute(claim(newKey()))
      reasons.push(answer.kind === 'unreachable' ? answer.reason : answer.kind)
    }
    expect(reasons).toEqual([...Array(MAX_IN_FLIGHT_CALLS).fill('timeout'), ...Array(5).fill('refused')])
    own.resume(0)
    await eventually('the node to answer again', async () => {
      const answer = await other.node.execute(claim(newKey()))
      return answer.kind === 'granted'
    })
  })

  test('a server that dies in the middle of a call is unreachable, which is not "free"', async () => {
    await using own = await startRedisServers(1)
    await using other = await openRedisNode({ url: own.at(0).url })
    own.pause(0)
    const asked = everyCommand(newKey()).map((command) => other.node.execute(command))
    await own.kill(0)
    for (const answer of await Promise.all(asked)) {
      expect(answer).toMatchObject({ kind: 'unreachable', reason: 'error' })
    }
    await eventually('the connection to be known as broken', () => other.client.status !== 'ready')
    expect(await other.node.execute(claim(newKey()))).toMatchObject({
      kind: 'unreachable',
      reason: 'refused',
    })
  })

  test('a call whose connection the server closes is unreachable, and is not sent again', async () => {
    await using own = await startRedisServers(1)
    await using other = await openRedisNode({ url: own.at(0).url })
    const admin = new Redis(own.at(0).url)
    const key = newKey()
    own.pause(0)
    const asked: Promise<NodeAnswer> = other.node.execute(claim(key))
    // In the order of their arrival, once the process resumes: the claim may be executed, its answer is lost.
    const killed = admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    other.client.disconnect(true)
    own.resume(0)
    expect(await asked).toMatchObject({ kind: 'unreachable', reason: 'error' })
    await killed
    admin.disconnect()
  })
})

describe('an answer that is read late, because this process was suspended', () => {
  /** As after SIGCONT: the answer has arrived, and the monotonic clock has advanced. */
  function standingStill() {
    let stoodStillMs = 0
    const clock: Clock = {
      monoMs: () => systemClock.monoMs() + stoodStillMs,
      wallMs: () => systemClock.wallMs() + stoodStillMs,
      timer: (delayMs, fire) => systemClock.timer(delayMs, fire),
    }
    return {
      clock,
      standStill: (ms: number) => {
        stoodStillMs += ms
      },
    }
  }

  const said = (answer: NodeAnswer) => (answer.kind === 'unreachable' ? answer.reason : answer.kind)

  test.each<[what: string, stoodStillMs: number, answers: readonly string[]]>([
    ['after a suspension longer than an answer may be old none counts', 2_001, Array(5).fill('timeout')],
    ['after a little less each counts', 1_500, ['granted', 'renewed', 'recorded', 'not_owner', 'record']],
    ['after an hour none counts', 3_600_000, Array(5).fill('timeout')],
  ])('%s', async (_, stoodStillMs, expected) => {
    const { clock, standStill } = standingStill()
    await using other = await openRedisNode({ url: servers.at(0).url }, { clock })
    const asked = everyCommand(newKey()).map((command) => other.node.execute(command))
    standStill(stoodStillMs)
    const answers = await Promise.all(asked)
    expect(answers.map(said)).toEqual(expected)
    // The node is well, and no breaker has to open.
    for (const answer of answers) if (answer.kind === 'unreachable') expect(answer.answered).toBe(true)
  })

  test('after a suspension of the machine, which only the wall clock shows, none counts', async () => {
    let suspendedMs = 0
    const clock: Clock = { ...systemClock, wallMs: () => systemClock.wallMs() + suspendedMs }
    await using other = await openRedisNode({ url: servers.at(0).url }, { clock })
    const asked = everyCommand(newKey()).map((command) => other.node.execute(command))
    suspendedMs = 2_001
    expect((await Promise.all(asked)).map(said)).toEqual(Array(5).fill('timeout'))
  })

  test('votes for a lease that is over by then do not count, all other answers do', async () => {
    const { clock, standStill } = standingStill()
    await using other = await openRedisNode({ url: servers.at(0).url }, { clock })
    const short = everyCommand(newKey()).map((command) => ({ ...command, leaseMs: 500 }) as RecordCommand)
    const asked = short.map((command) => other.node.execute(command))
    standStill(600)
    expect((await Promise.all(asked)).map(said)).toEqual([
      'timeout',
      'timeout',
      'recorded',
      'not_owner',
      'record',
    ])
  })

  test('an outcome whose answer came too late is recorded when it is offered again', async () => {
    const { clock, standStill } = standingStill()
    await using other = await openRedisNode({ url: servers.at(0).url }, { clock })
    const key = newKey()
    const completion = complete(key, Buffer.from('paid'))
    const asked = other.node.execute(completion)
    standStill(60_000)
    expect(await asked).toMatchObject({ kind: 'unreachable', reason: 'timeout', answered: true })
    expect(await other.node.execute(completion)).toMatchObject({ kind: 'recorded' })
    // Nor does an outcome of so long ago count.
    const claiming = other.node.execute(claim(key, tokenAt(Date.now() + 1)))
    standStill(60_000)
    expect(await claiming).toMatchObject({ kind: 'unreachable', answered: true })
    expect(await other.node.execute(claim(key, tokenAt(Date.now() + 2)))).toMatchObject({ kind: 'completed' })
  })

  test('late answers of all nodes grant and renew no lease that is over, and the key is free at once', async () => {
    const { clock, standStill } = standingStill()
    const opened = await Promise.all([1, 2, 3].map(() => startRedisServers(1)))
    const nodes = await Promise.all(opened.map((own) => openRedisNode({ url: own.at(0).url }, { clock })))
    const outside = { clock, events: SILENT, random: systemRandom }
    const quorum = createRedlockQuorum({ nodes: nodes.map(({ node }) => node), ...outside })
    const leases = createLeases({ quorum, ...outside })
    const request = { fingerprint: FINGERPRINT, leaseMs: 20_000, retentionMs: 60_000, budgetMs: 100 }
    try {
      const claiming = leases.claim({ ...request, key: 'dedup:late:claim' })
      standStill(20_000)
      expect(await claiming).toMatchObject({ kind: 'unavailable' })
      const granted = await leases.claim({ ...request, key: 'dedup:late:claim' })
      if (granted.kind !== 'granted') throw new Error(`not granted: ${granted.kind}`)

      const renewing = leases.renew(granted.lease)
      standStill(20_000)
      expect(await renewing).toMatchObject({ kind: 'unavailable' })

      // Valid from its request on: a second of suspension is a second less.
      const late = leases.claim({ ...request, key: 'dedup:late:second' })
      const askedMonoMs = clock.monoMs()
      standStill(1_000)
      const granted2 = await late
      if (granted2.kind !== 'granted') throw new Error(`not granted: ${granted2.kind}`)
      expect(granted2.lease.validUntilMonoMs).toBeLessThanOrEqual(askedMonoMs + request.leaseMs)
    } finally {
      await Promise.all([...nodes, ...opened].map((one) => one[Symbol.asyncDispose]()))
    }
  })
})

describe('credentials', () => {
  test.each([
    ['none', {}, /NOAUTH/],
    ['wrong ones', { password: () => 'wrong' }, /WRONGPASS/],
  ])('%s: the node is never ready, and says unreachable', async (_, credentials, reason) => {
    await using own = await startRedisServers(1, { config: ['requirepass secret'] })
    const client = createRedisClient(
      { url: own.at(0).url, ...credentials },
      { connectTimeoutMs: 10_000, random: systemRandom },
    )
    const errors: string[] = []
    client.on('error', (error: Error) => errors.push(error.message))
    const failed = await client.connect().then(
      () => 'connected',
      (error: Error) => error.message,
    )
    client.disconnect()
    expect([failed, ...errors].join('\n')).toMatch(reason)
  })

  test('the right ones: it serves', async () => {
    await using own = await startRedisServers(1, { config: ['requirepass secret'] })
    await using other = await openRedisNode({ url: own.at(0).url, password: () => 'secret' })
    expect(await other.node.execute(claim(newKey()))).toMatchObject({ kind: 'granted' })
  })

  test('a user that may not run the script: every command is refused, none thrown', async () => {
    await operator.call(
      'ACL',
      'SETUSER',
      'poor',
      'on',
      '>secret',
      '~*',
      '+@read',
      '+@connection',
      '+info',
      '+set',
    )
    const address = { url: servers.at(0).url, username: 'poor', password: () => 'secret' }
    await using other = await openRedisNode(address, { joins: false })
    for (const command of everyCommand(newKey())) {
      expect(await other.node.execute(command)).toMatchObject({
        kind: 'unreachable',
        reason: 'error',
        detail: expect.stringContaining('NOPERM'),
      })
    }
  })
})
