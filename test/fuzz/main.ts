/**
 * `npm run campaign -- fuzz`: mutated requests, answers and calls against the real listeners, from one seed.
 *
 *   --requests N     messages in all (default 10000): eight of ten requests of clients, one answers of the application,
 *                    one calls of the reservation API
 *   --seed N         repeats a run
 *   --fingerprint    instead: N generated pairs of payloads and their fingerprints
 *
 * Ends with 0 where everything held, 1 where not; the last line is one JSON object for programs.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { endInTime } from '../support/end-of-program.ts'
import { seededRandom } from '../support/seeded-random.ts'
import { fuzzAnswers } from './answers.ts'
import { fuzzCalls } from './calls.ts'
import { fuzzFingerprints } from './fingerprints.ts'
import { fuzzRequests } from './requests.ts'

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '10000' },
    seed: { type: 'string' },
    fingerprint: { type: 'boolean', default: false },
  },
})

/** Connections at once: as many as the smallest container has descriptors for on both sides. */
const AT_ONCE = 400

process.exitCode = await main(Number(values.requests), seedFrom(values.seed))
endInTime()

async function main(requests: number, seed: number): Promise<number> {
  if (!Number.isSafeInteger(requests) || requests < 10 || !Number.isSafeInteger(seed)) {
    console.error('--requests is a whole number from 10 on, --seed a whole number')
    return 64
  }
  console.log(`seed ${seed}: npm run campaign -- fuzz --requests ${requests} --seed ${seed}`)
  return values.fingerprint ? fingerprints(requests, seed) : messages(requests, seed)
}

async function messages(requests: number, seed: number): Promise<number> {
  const startedMs = performance.now()
  const random = seededRandom(seed)
  const share = Math.floor(requests / 10)
  // First a few, so that resources opened once (DNS, timers of libraries) do not count as left open.
  await fuzzRequests({ requests: 10, atOnce: 10, random: seededRandom(1) })
  const before = await handles()
  const ofRequests = await fuzzRequests({ requests: requests - 2 * share, atOnce: AT_ONCE, random })
  const ofAnswers = await fuzzAnswers({ answers: Math.ceil(share / 2), atOnce: AT_ONCE / 2, random })
  const ofCalls = await fuzzCalls({ calls: share, atOnce: AT_ONCE, random })
  const after = await handles()
  const broken = [...ofRequests.broken, ...ofAnswers.broken, ...ofCalls.broken]
  if (after.total > before.total)
    broken.push(`handles leaked: ${JSON.stringify(before)} before, ${JSON.stringify(after)} after`)
  for (const sentence of broken) console.log(`broken: ${sentence}`)
  console.log(
    JSON.stringify({
      seed,
      requests,
      carriedOut: ofRequests.executed,
      replayedAnswers: ofAnswers.replayed,
      reserved: ofCalls.reserved,
      handlesBefore: before.total,
      handlesAfter: after.total,
      rssMiB: Math.round(process.memoryUsage().rss / 2 ** 20),
      tookS: Math.round((performance.now() - startedMs) / 1_000),
      broken: broken.length,
    }),
  )
  return broken.length === 0 ? 0 : 1
}

async function fingerprints(pairs: number, seed: number): Promise<number> {
  try {
    console.log(JSON.stringify({ seed, ...(await fuzzFingerprints({ pairs, seed })), broken: 0 }))
    return 0
  } catch (error) {
    console.log(`broken: ${error instanceof Error ? error.message : String(error)}`)
    return 1
  }
}

/** What keeps the process alive once everything closing has closed; output and timers of this loop aside. */
async function handles(): Promise<{ readonly total: number; readonly of: Readonly<Record<string, number>> }> {
  const count = () => {
    const of: Record<string, number> = {}
    for (const name of process.getActiveResourcesInfo())
      if (!/^(TTYWrap|PipeWrap|FSReqPromise|CloseReq|Immediate)$/.test(name)) of[name] = (of[name] ?? 0) + 1
    return { total: Object.values(of).reduce((sum, each) => sum + each, 0), of }
  }
  let least = count()
  for (let look = 0; look < 30 && least.total > 0; look += 1) {
    await pause(200)
    const now = count()
    if (now.total < least.total) least = now
  }
  return least
}

function seedFrom(given: string | undefined): number {
  return given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given)
}
