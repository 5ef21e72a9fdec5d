/**
 * The load generator, a process of its own: sends HTTP/1.1 requests and times the answers.
 *
 * Closed loop: `concurrency` connections, each sends its next request when it has its answer. Open loop: a request is
 * due at every 1/rate seconds whatever the answers do, and its latency counts from the moment at which it was *due*,
 * not from the one at which a connection was free (otherwise a stalled server hides the requests that it delayed:
 * "coordinated omission"). A run in which the generator itself could not keep up is void, and says so.
 *
 * It speaks to its sockets directly: a client library costs more than the servers that are measured, and on a shared
 * machine its cost is theirs. It reads only `Content-Length` and chunked answers.
 */

import { connect, type Socket } from 'node:net'
import { createHistogram, performance } from 'node:perf_hooks'
import { Worker } from 'node:worker_threads'
import type { Job, JobResult } from './load.ts'

/** Durations are kept in nanoseconds with three figures, up to one minute. */
const LONGEST_NS = 60_000_000_000
const NS_PER_MS = 1e6

process.on('message', (job: Job) => {
  run(job).then(
    (result) => process.send?.({ result }),
    (error: Error) => process.send?.({ error: error.message }),
  )
})
process.on('disconnect', () => process.exit())

async function run(job: Job): Promise<JobResult> {
  const lane = lanes(job)
  const histogram = createHistogram({ lowest: 1, highest: LONGEST_NS, figures: 3 })
  const statuses: Record<string, number> = {}
  let done = 0
  const answered = (status: string, sinceMs: number) => {
    done += 1
    statuses[status] = (statuses[status] ?? 0) + 1
    histogram.record(Math.max(1, Math.round((performance.now() - sinceMs) * NS_PER_MS)))
  }
  const request = requests(job)
  const startedMs = performance.now()
  const late =
    job.load.kind === 'closed'
      ? await closedLoop(lane, request, answered, job.load.requests, job.load.concurrency)
      : await openLoop(lane, request, answered, job.load.perSecond, job.load.seconds)
  const seconds = (performance.now() - startedMs) / 1000
  lane.end()
  const atMs = (percentile: number) => histogram.percentile(percentile) / NS_PER_MS
  return {
    requests: done,
    seconds,
    perSecond: done / seconds,
    statuses,
    p50Ms: atMs(50),
    p90Ms: atMs(90),
    p99Ms: atMs(99),
    p999Ms: atMs(99.9),
    maxMs: histogram.max / NS_PER_MS,
    lateShare: late,
  }
}

type Answered = (status: string, sinceMs: number) => void

async function closedLoop(
  lane: Lanes,
  request: () => Buffer,
  answered: Answered,
  count: number,
  concurrency: number,
): Promise<number> {
  let begun = 0
  const worker = async () => {
    while (begun < count) {
      begun += 1
      const sinceMs = performance.now()
      answered(await lane.send(request()), sinceMs)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  return 0
}

/** @returns the share of requests that went out more than a millisecond after they were due */
async function openLoop(
  lane: Lanes,
  request: () => Buffer,
  answered: Answered,
  perSecond: number,
  seconds: number,
): Promise<number> {
  const total = Math.round(perSecond * seconds)
  const gapMs = 1000 / perSecond
  const under: Promise<void>[] = []
  const startedMs = performance.now()
  let late = 0
  // Well within the millisecond after which a request counts as late, however few are due.
  await using metronome = new Metronome(Math.min(Math.max(gapMs, 0.1), 0.25))
  for (let begun = 0; begun < total; ) {
    const nowMs = performance.now()
    for (; begun < total && startedMs + begun * gapMs <= nowMs; begun += 1) {
      const dueMs = startedMs + begun * gapMs
      if (nowMs - dueMs > 1) late += 1
      under.push(lane.send(request()).then((status) => answered(status, dueMs)))
    }
    await metronome.tick()
  }
  await Promise.all(under)
  return late / total
}

/**
 * Ticks at a fraction of a millisecond, which timers of the event loop do not: another thread sleeps, and wakes this
 * one.
 */
class Metronome implements AsyncDisposable {
  readonly #ticks = new Int32Array(new SharedArrayBuffer(4))
  readonly #worker: Worker

  constructor(everyMs: number) {
    this.#worker = new Worker(
      `const { workerData: { ticks, everyMs } } = require('node:worker_threads')
       const sleeper = new Int32Array(new SharedArrayBuffer(4))
       for (;;) { Atomics.wait(sleeper, 0, 0, everyMs); Atomics.add(ticks, 0, 1); Atomics.notify(ticks, 0) }`,
      { eval: true, workerData: { ticks: this.#ticks, everyMs } },
    )
  }

  async tick(): Promise<void> {
    const waited = Atomics.waitAsync(this.#ticks, 0, Atomics.load(this.#ticks, 0), 5)
    if (waited.async) await waited.value
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate()
  }
}

type Lanes = { send(request: Buffer): Promise<string>; end(): void }

/** As many as a server of this machine can hold; further requests wait, and their time runs. */
const CONNECTIONS_MAX = 1_000

/** Connections as they are needed, each with one request under way. */
function lanes({ url }: Job): Lanes {
  const { hostname, port } = new URL(url)
  const free: Lane[] = []
  const all = new Set<Lane>()
  const waiting: ((lane: Lane) => void)[] = []
  const open = () => {
    const lane = new Lane(connect({ host: hostname, port: Number(port), noDelay: true }))
    all.add(lane)
    return lane
  }
  const take = (): Lane | Promise<Lane> => {
    const lane = free.pop()
    if (lane !== undefined) return lane
    return all.size < CONNECTIONS_MAX ? open() : new Promise((resolve) => waiting.push(resolve))
  }
  return {
    async send(bytes) {
      const lane = await take()
      const status = await lane.exchange(bytes)
      if (lane.ended) all.delete(lane)
      const next = waiting.shift()
      if (next !== undefined) next(lane.ended ? open() : lane)
      else if (!lane.ended) free.push(lane)
      return status
    },
    end() {
      for (const lane of all) lane.destroy()
    },
  }
}

const HEAD_END = Buffer.from('\r\n\r\n')
const LAST_CHUNK = Buffer.from('0\r\n\r\n')

class Lane {
  readonly #socket: Socket
  #read: Buffer = Buffer.alloc(0)
  /** The server said that this connection takes no further request. */
  ended = false
  #wanted: { resolve: (status: string) => void; reject: (error: Error) => void } | undefined

  constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (bytes: Buffer) => this.#more(bytes))
    socket.on('error', (error) => this.#wanted?.reject(error))
    socket.on('close', () =>
      this.#wanted?.reject(new Error('the server closed a connection without an answer')),
    )
  }

  exchange(bytes: Buffer): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#wanted = { resolve, reject }
      this.#socket.write(bytes)
    })
  }

  destroy(): void {
    this.#wanted = undefined
    this.#socket.destroy()
  }

  #more(bytes: Buffer): void {
    this.#read = this.#read.length === 0 ? bytes : Buffer.concat([this.#read, bytes])
    const headEnd = this.#read.indexOf(HEAD_END)
    if (headEnd < 0) return
    const head = this.#read.toString('latin1', 0, headEnd).toLowerCase()
    if (!isWhole(head, this.#read.subarray(headEnd + HEAD_END.length))) return
    this.#read = Buffer.alloc(0)
    this.ended = head.includes('\r\nconnection: close')
    const wanted = this.#wanted
    this.#wanted = undefined
    wanted?.resolve(head.slice(9, 12))
  }
}

function isWhole(head: string, body: Buffer): boolean {
  const length = /\r\ncontent-length: *(\d+)/.exec(head)?.[1]
  if (length !== undefined) return body.length >= Number(length)
  if (head.includes('\r\ntransfer-encoding: chunked')) return body.subarray(-5).equals(LAST_CHUNK)
  return true
}

let serial = 0

function requests({ url, method, path, key, bodyBytes }: Job): () => Buffer {
  const { host } = new URL(url)
  const start = `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n`
  if (method === 'GET') {
    const whole = Buffer.from(`${start}\r\n`)
    return () => whole
  }
  const body = JSON.stringify({ amount: 100, currency: 'EUR', note: '' })
  const padded = body.replace('""', `"${'x'.repeat(Math.max(0, bodyBytes - body.length))}"`)
  const rest = `"\r\nContent-Type: application/json\r\nContent-Length: ${padded.length}\r\n\r\n${padded}`
  return () => Buffer.from(`${start}Idempotency-Key: "${key.prefix}-${serial++ % key.count}${rest}`, 'latin1')
}
