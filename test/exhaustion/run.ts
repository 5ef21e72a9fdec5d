/**
 * One case of exhaustion beside an idle sidecar: memory and descriptors of the loaded one, second by second, and the
 * latency of other requests on both, in turns, so that a slow machine slows both.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '../support/eventually.ts'
import { posted } from '../support/post.ts'
import { between, startSidecar } from '../support/sidecar.ts'
import type { Case } from './cases.ts'
import { startHoldingApplication } from './holding-application.ts'

export type Sample = { readonly atS: number; readonly rssMiB: number; readonly descriptors: number }

export type CaseReport = {
  readonly name: string
  readonly count: number
  readonly seconds: number
  readonly samples: readonly Sample[]
  readonly held: Readonly<Record<string, number>>
  readonly executionsOfHeld: number
  /** Of the second half of the time over the first; near 1 is flat. */
  readonly rssGrowth: number
  readonly descriptorGrowth: number
  /** Of other requests, beside the idle sidecar. */
  readonly p50: { readonly loadedMs: number; readonly peacefulMs: number }
  readonly p99: { readonly loadedMs: number; readonly peacefulMs: number; readonly ratio: number }
  readonly otherRequests: number
}

export async function runCase(of: Case, count: number, seconds: number): Promise<CaseReport> {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-exhaustion-'))
  await using application = await startHoldingApplication()
  try {
    const file = join(folder, 'config.yaml')
    writeFileSync(file, CONFIG)
    const env = {
      ...between('embedded', application),
      FENCEPOST_CONFIG: file,
      FENCEPOST_LOG_LEVEL: 'info',
      FENCEPOST_MAX_IN_FLIGHT: '20000',
      FENCEPOST_TENANT_IN_FLIGHT: '20000',
      FENCEPOST_KEEP_ALIVE_TIMEOUT: '1h',
      FENCEPOST_HEADERS_TIMEOUT: '5s',
      FENCEPOST_REQUEST_TIMEOUT: '5s',
      FENCEPOST_READER_IDLE: '5s',
      FENCEPOST_UPSTREAM_TIMEOUT: '30m',
      FENCEPOST_TOTAL_HOLD: '30m',
    }
    await using loaded = await startSidecar(env)
    await using peaceful = await startSidecar(env)
    await other(loaded.proxy, 50)
    await other(peaceful.proxy, 50)
    const before = descriptorsOf(loaded.process.pid)
    await using load = await of.begin({ proxy: loaded.proxy, application }, count)
    // Late connections must not look like growth.
    await eventually(
      'the sidecar to have taken every connection',
      () => descriptorsOf(loaded.process.pid) >= before + count,
      { withinMs: 60_000 },
    )
    const [samples, took] = await Promise.all([
      sample(loaded.process.pid, seconds),
      inTurns([loaded.proxy, peaceful.proxy], seconds),
    ])
    const [ofLoaded = [], ofPeaceful = []] = took
    return {
      name: of.name,
      count,
      seconds,
      samples,
      held: load.held(),
      executionsOfHeld: application.executionsOfHeld,
      rssGrowth: growth(samples.map(({ rssMiB }) => rssMiB)),
      descriptorGrowth: growth(samples.map(({ descriptors }) => descriptors)),
      p50: { loadedMs: quantile(ofLoaded, 0.5), peacefulMs: quantile(ofPeaceful, 0.5) },
      p99: {
        loadedMs: quantile(ofLoaded, 0.99),
        peacefulMs: quantile(ofPeaceful, 0.99),
        ratio: Math.round((100 * quantile(ofLoaded, 0.99)) / quantile(ofPeaceful, 0.99)) / 100,
      },
      otherRequests: ofLoaded.length + ofPeaceful.length,
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Everything waits, for as long as the case lasts; the limit of waiters is above their number. */
const CONFIG = `routes:
  - name: posts
    match: { methods: [POST] }
    mode: header
    required: false
    onContention: wait
    wait: { max: 30m, waiters: 10000 }
    upstreamTimeout: 30m
    totalHold: 30m
`

function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

async function sample(pid: number, seconds: number): Promise<readonly Sample[]> {
  const samples: Sample[] = []
  for (let atS = 0; atS <= seconds; atS += 1) {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const rssKiB = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0)
    samples.push({
      atS,
      rssMiB: Math.round(rssKiB / 1024),
      descriptors: descriptorsOf(pid),
    })
    await pause(1_000)
  }
  return samples
}

async function inTurns(proxies: readonly string[], seconds: number): Promise<readonly number[][]> {
  const took = proxies.map((): number[] => [])
  const untilMs = performance.now() + seconds * 1_000
  while (performance.now() < untilMs) {
    for (const [index, proxy] of proxies.entries()) took[index]?.push(...(await other(proxy, 1)))
    await pause(10)
  }
  return took
}

let asked = 0

/** Requests of other clients, each with its own key. */
async function other(proxy: string, count: number): Promise<number[]> {
  const took: number[] = []
  for (let index = 0; index < count; index += 1) {
    asked += 1
    const startedMs = performance.now()
    const answer = await posted(`${proxy}/other`, { 'idempotency-key': `other-${asked}` }, '{}')
    await answer.arrayBuffer()
    if (answer.status !== 201) throw new Error(`another request was answered ${answer.status}`)
    took.push(performance.now() - startedMs)
  }
  return took
}

function growth(values: readonly number[]): number {
  // The first fifth is settling in: caches fill, and code that is hot is compiled.
  const settled = values.slice(Math.floor(values.length / 5))
  const half = Math.floor(settled.length / 2)
  const mean = (of: readonly number[]) => of.reduce((sum, each) => sum + each, 0) / of.length
  return Math.round((1_000 * mean(settled.slice(half))) / mean(settled.slice(0, half))) / 1_000
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return Math.round(100 * (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0)) / 100
}
