/**
 * The rules of one node exist twice: in TypeScript (`core/record/record-rules.ts`) and in Lua. Here both get the same
 * random commands, and must give the same answers and the same stored records. The embedded node's clock is set to the
 * time that Redis gave for the very same command.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { NodeAnswer } from '../../src/core/ports.ts'
import type { RecordCommand } from '../../src/core/record/record.ts'
import { tokenAt } from '../../src/core/record/token.ts'
import { EmbeddedNode } from '../../src/embedded/node.ts'
import { openRedisNode, STANDING_CLOCK } from '../support/redis-node.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { seedOfRun } from '../support/seeded-random.ts'

const SEQUENCES = 200
const COMMANDS_MAX = 80
const MAX_TOKEN_AHEAD_MS = 60_000

const OWNERS = ['a', 'b', 'c'].map((digit) => digit.repeat(32))
const FINGERPRINTS = ['e', 'f'].map((digit) => digit.repeat(64))

type Step =
  | { readonly kind: 'command'; readonly key: number; readonly count: number; readonly command: Shape }
  | { readonly kind: 'pass'; readonly ms: number }
type Shape = Record<string, unknown> & { readonly kind: RecordCommand['kind'] }

/** Most leases and lifetimes are short, so that expired claims and records are frequent. */
const durationMs = fc.oneof(fc.integer({ min: 1, max: 6 }), fc.constant(60_000))
const claimant = {
  owner: fc.constantFrom(...OWNERS),
  keyTtlMs: fc.oneof(
    { weight: 1, arbitrary: durationMs },
    { weight: 3, arbitrary: fc.constant(60_000) },
    // Longer than any promise.
    { weight: 2, arbitrary: fc.constant(600_000) },
  ),
}
const fingerprint = fc.oneof(
  { weight: 5, arbitrary: fc.constant(FINGERPRINTS[0]) },
  { weight: 1, arbitrary: fc.constant(FINGERPRINTS[1]) },
)
const sometimes = fc.constantFrom(true as const, undefined)
const attempt = fc.oneof(fc.integer({ min: 1, max: 3 }), fc.constant(9_999))
const outcome = fc
  .oneof(fc.uint8Array({ maxLength: 3 }), fc.uint8Array({ maxLength: 400 }))
  .map((bytes) => Buffer.from(bytes))
const shape: fc.Arbitrary<Shape> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('claim' as const),
      ...claimant,
      fingerprint,
      leaseMs: durationMs,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('renew' as const),
      ...claimant,
      fingerprint,
      leaseMs: durationMs,
      attempt,
      raises: sometimes,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('complete' as const),
      ...claimant,
      fingerprint,
      attempt,
      outcome: fc.oneof(outcome, fc.constant(Buffer.from('the usual'))),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('complete' as const),
      ...claimant,
      fingerprint,
      attempt,
      outcome: fc.constant(Buffer.from('the usual')),
      acceptedAt: fc.integer({ min: 0, max: 6 }),
    }),
  },
  {
    weight: 2,
    // One command is one of the three: a frame has no letter for both at once, and no caller asks for that.
    arbitrary: fc
      .tuple(fc.record(claimant), fc.constantFrom({}, { withdraws: true }, { forgets: true }))
      .map(([from, how]) => ({ kind: 'release' as const, ...from, ...how })),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('read' as const) }) },
)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('command' as const),
      key: fc.integer({ min: 0, max: 1 }),
      // Near each other, and sometimes beyond the tolerance of a node.
      count: fc.oneof(
        { weight: 12, arbitrary: fc.integer({ min: 0, max: 6 }) },
        { weight: 1, arbitrary: fc.constant((MAX_TOKEN_AHEAD_MS + 30_000) * 1024) },
      ),
      command: shape,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 8 }) }),
  },
)

/**
 * Redis expires keys by a clock that it reads once a call, while TIME and the setting of a lifetime read it anew:
 * around its expiry a record may be there or not, whatever TIME says. A stall of the server in between adds to the
 * difference. So no comparison is made where the record may expire, by the server or by the model, between the time
 * before the call and TIME, plus or minus this much.
 */
const EXPIRY_BLUR_MS = 2
/** The same for the remaining lifetime, on a busy machine: a copier needs it, not to the millisecond. */
const LIFETIME_BLUR_MS = 1_000

test('the Lua rules and the TypeScript rules are indistinguishable', async () => {
  await using servers = await startRedisServers(1)
  await using opened = await openRedisNode(
    { url: servers.at(0).url },
    { maxTokenAheadMs: MAX_TOKEN_AHEAD_MS, clock: STANDING_CLOCK },
  )
  const { node: redis, client } = opened
  let embeddedNodeMs = 0
  const embedded = new EmbeddedNode('embedded-0', () => embeddedNodeMs, MAX_TOKEN_AHEAD_MS)
  /** Of each record: its expiry, and where a promise outlives its outcome, the ends of that. */
  const endsAsModelled = new Map<string, readonly number[]>()
  let outlived = 0
  let promisedInPlace = 0
  let sequences = 0
  let commands = 0
  const kinds = new Set<string>()

  async function nodeMsNow(): Promise<number> {
    const [seconds, microseconds] = await client.time()
    return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
  }

  async function pass(ms: number): Promise<void> {
    const until = (await nodeMsNow()) + ms
    while ((await nodeMsNow()) < until);
  }

  /** @returns false where the answer depended on the blur of an expiry: the two may differ from here on */
  async function compare(command: RecordCommand): Promise<boolean> {
    const earliestMs = await nodeMsNow()
    const expiresMs = Number(await client.call('PEXPIRETIME', command.key))
    const expiries = [expiresMs, ...(endsAsModelled.get(command.key) ?? [])].filter((ms) => ms > 0)
    const read = { kind: 'read', key: command.key } as const
    // Sent in one turn, they travel in one call and see one time.
    const real = await Promise.all([redis.execute(command), redis.execute(read)])
    const [{ nodeMs }] = real as [NodeAnswer & { nodeMs: number }, NodeAnswer]
    const mayBeOver = Math.min(...expiries) <= nodeMs + EXPIRY_BLUR_MS
    const mayStand = Math.max(...expiries) >= earliestMs - EXPIRY_BLUR_MS
    if (mayBeOver && mayStand) return false
    embeddedNodeMs = nodeMs
    const model = [embedded.apply(command), embedded.apply(read)]
    const kept = embedded.kept(command.key)
    if (kept === undefined) endsAsModelled.delete(command.key)
    else endsAsModelled.set(command.key, [nodeMs + kept.ttlMs, overAtIn(model[1]), overAtIn(real[1])])
    expect(withoutLifetime(model[1]), JSON.stringify(command)).toEqual(withoutLifetime(real[1]))
    expect(Math.abs(lifetimeIn(model[1]) - lifetimeIn(real[1]))).toBeLessThan(LIFETIME_BLUR_MS)
    expect(Math.abs(overAtIn(model[1]) - overAtIn(real[1]))).toBeLessThan(LIFETIME_BLUR_MS)
    if (overAtIn(real[1]) > 0) outlived += 1
    else if (real[0].kind === 'completed' && real[0].promised) promisedInPlace += 1
    if (command.kind === 'read') expect(withoutLifetime(model[0])).toEqual(withoutLifetime(real[0]))
    else expect(model[0], JSON.stringify(command)).toEqual(real[0])
    commands += 1
    kinds.add(real[0].kind)
    return true
  }

  const sequence = fc.asyncProperty(
    fc.array(step, { minLength: 20, maxLength: COMMANDS_MAX }),
    async (steps) => {
      sequences += 1
      const base = tokenAt(await nodeMsNow())
      const generation = [0, 0]
      for (const one of steps) {
        if (one.kind === 'pass') await pass(one.ms)
        else {
          const key = `dedup:property:${sequences}:${one.key}:${generation[one.key]}`
          const { acceptedAt, ...shape } = one.command
          const told = typeof acceptedAt === 'number' ? { acceptedToken: base + acceptedAt } : {}
          const command = { ...shape, ...told, key, token: base + one.count } as unknown as RecordCommand
          if (!(await compare(command))) generation[one.key] = (generation[one.key] ?? 0) + 1
        }
      }
    },
  )
  await fc.assert(sequence, { seed: seedOfRun('the two rules'), numRuns: SEQUENCES, endOnFailure: false })

  console.info(`${commands} commands in ${sequences} sequences, answers met: ${[...kinds].sort().join(', ')}`)
  expect(commands).toBeGreaterThan(4_000)
  expect(kinds.size).toBe(13)
  expect(outlived).toBeGreaterThan(20)
  expect(promisedInPlace).toBeGreaterThan(20)
})

function lifetimeIn(answer: NodeAnswer | undefined): number {
  return answer?.kind === 'record' ? (answer.ttlMs ?? 0) : 0
}

function overAtIn(answer: NodeAnswer | undefined): number {
  return answer?.kind === 'record' && answer.record?.state === 'completed'
    ? (answer.record.overAtNodeMs ?? 0)
    : 0
}

function withoutLifetime(answer: NodeAnswer | undefined): unknown {
  if (answer?.kind !== 'record') return answer
  const { ttlMs: _, ...rest } = answer
  if (rest.record?.state !== 'completed') return rest
  const { overAtNodeMs: __, ...record } = rest.record
  return { ...rest, record }
}
