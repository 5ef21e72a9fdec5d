/**
 * The clients of the cluster tests, and the books of what was executed: a process of its own in the network of the machine, which
 * is told by messages when to begin, and answers with its books.
 *
 * Requests leave at their rate whatever their answers are. Half of them use connections that are kept, as gateways do, and half
 * open one each, as a proxy of connections sees them. A client repeats a request, with its key, until it is answered; the
 * first answer that was no success is in the books.
 */
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { Agent, request } from 'undici'

export const BOOKS_PORT = 7000
const KEPT_CONNECTIONS = 4
/** One in so many is sent a second time, after its answer. */
const DUPLICATE_EVERY = 5
const RETRY_AFTER_MS = 200
const ANSWERED_WITHIN_MS = 120_000
const LATE_MS_MAX = 1_000
const LOOK_EVERY_MS = 200
const NOTES_MAX = 40

export type Order =
  | { readonly begin: { readonly target: string; readonly perSecond: number } }
  | { readonly look: readonly string[] }
  | { readonly end: true }

export type Books = {
  readonly requests: number
  readonly duplicates: number
  readonly executed: number
  readonly executedTwice: readonly string[]
  /** Sent and never executed, or never answered with success. */
  readonly lost: readonly string[]
  /** Of first answers that were no success: what they were, and how many. */
  readonly failed: Readonly<Record<string, number>>
  readonly notes: readonly string[]
  /** The fewest votes that a sidecar saw, of all looks; absent where no look was asked for. */
  readonly fewestVotes?: number
  readonly seconds: number
}

type Way = 'kept' | 'fresh'

const executions = new Map<string, number>()

class Traffic {
  readonly #target: string
  readonly #perSecond: number
  readonly #agents: Readonly<Record<Way, readonly Agent[]>> = {
    kept: Array.from({ length: KEPT_CONNECTIONS }, () => new Agent({ connections: 1, pipelining: 1 })),
    fresh: [new Agent({ pipelining: 0 })],
  }
  readonly #startedMs = performance.now()
  readonly #sent: string[] = []
  readonly #lost = new Set<string>()
  readonly #failed: Record<string, number> = {}
  readonly #notes: string[] = []
  readonly #underWay = new Set<Promise<void>>()
  readonly #loops: Promise<void>[]
  readonly #watched: readonly string[]
  #duplicates = 0
  #fewestVotes = Number.POSITIVE_INFINITY
  #running = true

  constructor(target: string, perSecond: number, watched: readonly string[]) {
    this.#target = target
    this.#perSecond = perSecond
    this.#watched = watched
    this.#loops = [this.#send(), this.#look()]
  }

  async end(): Promise<Books> {
    this.#running = false
    await Promise.all(this.#loops)
    await Promise.all(this.#underWay)
    for (const agents of Object.values(this.#agents)) for (const agent of agents) await agent.destroy()
    const counts = this.#sent.map((key) => executions.get(key) ?? 0)
    return {
      requests: this.#sent.length,
      duplicates: this.#duplicates,
      executed: counts.filter((count) => count > 0).length,
      executedTwice: this.#sent.filter((_, index) => (counts[index] as number) > 1),
      lost: this.#sent.filter((key, index) => counts[index] === 0 || this.#lost.has(key)),
      failed: this.#failed,
      notes: this.#notes,
      ...(Number.isFinite(this.#fewestVotes) ? { fewestVotes: this.#fewestVotes } : {}),
      seconds: (performance.now() - this.#startedMs) / 1_000,
    }
  }

  async #send(): Promise<void> {
    const gapMs = 1_000 / this.#perSecond
    let dueMs = this.#startedMs
    for (let count = 0; this.#running; count += 1) {
      // At least one turn of the event loop: a process that is behind still has answers to read.
      await pause(Math.max(0, dueMs - performance.now()))
      // On a machine that is too busy for the rate, what is late by more is not made up for.
      dueMs = Math.max(dueMs + gapMs, performance.now() - LATE_MS_MAX)
      const key = randomUUID()
      this.#sent.push(key)
      const way = count % 2 === 0 ? 'kept' : 'fresh'
      const agents = this.#agents[way]
      const one = this.#client(key, way, agents[(count >> 1) % agents.length] as Agent, count)
      this.#underWay.add(one)
      void one.finally(() => this.#underWay.delete(one))
    }
  }

  async #client(key: string, way: Way, agent: Agent, count: number): Promise<void> {
    const untilMs = performance.now() + ANSWERED_WITHIN_MS
    for (let attempt = 1; ; attempt += 1) {
      const said = await this.#ask(key, agent)
      if (said === '201') break
      if (attempt === 1) this.#note(`${way} ${said}`, key)
      if (performance.now() > untilMs) {
        this.#lost.add(key)
        return
      }
      await pause(RETRY_AFTER_MS)
    }
    if (count % DUPLICATE_EVERY !== 0) return
    this.#duplicates += 1
    const said = await this.#ask(key, agent)
    if (said !== '201') this.#note(`duplicate ${way} ${said}`, key)
  }

  #note(said: string, key: string): void {
    this.#failed[said] = (this.#failed[said] ?? 0) + 1
    const atS = ((performance.now() - this.#startedMs) / 1_000).toFixed(1)
    if (this.#notes.length < NOTES_MAX) this.#notes.push(`${atS} s ${key} ${said}`)
  }

  /** @returns the status, with the code of a problem; or the code of the error */
  async #ask(key: string, dispatcher: Agent): Promise<string> {
    try {
      const { statusCode, body } = await request(`${this.#target}/payments`, {
        dispatcher,
        method: 'POST',
        headers: { 'idempotency-key': key, 'content-type': 'application/json' },
        body: '{"amount":1}',
        headersTimeout: 30_000,
      })
      const text = await body.text()
      return statusCode === 201 ? '201' : `${statusCode} ${problemIn(text)}`
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      return code ?? message
    }
  }

  async #look(): Promise<void> {
    if (this.#watched.length === 0) return
    while (this.#running) {
      for (const url of this.#watched) {
        const votes = await votesSeenBy(url)
        if (votes !== undefined) this.#fewestVotes = Math.min(this.#fewestVotes, votes)
      }
      await pause(LOOK_EVERY_MS)
    }
  }
}

function problemIn(text: string): string {
  try {
    const { code, type } = JSON.parse(text) as { code?: string; type?: string }
    return code ?? String(type).split('/').at(-1) ?? ''
  } catch {
    return text.slice(0, 60)
  }
}

/** Undefined where it gave no answer: it may be gone. */
async function votesSeenBy(url: string): Promise<number | undefined> {
  try {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) })
    const { nodes } = (await answer.json()) as { nodes: { state: string }[] }
    return nodes.filter(({ state }) => state === 'voting').length
  } catch {
    return undefined
  }
}

function keepBooks(): Promise<void> {
  const server = createServer((incoming, response) => {
    const key = String(incoming.headers.key)
    executions.set(key, (executions.get(key) ?? 0) + 1)
    incoming.resume()
    response.writeHead(204).end()
  })
  // A connection that the application may be about to use is not closed.
  server.keepAliveTimeout = 0
  return new Promise((resolve) => server.listen(BOOKS_PORT, '0.0.0.0', resolve))
}

if (import.meta.main) {
  let traffic: Traffic | undefined
  let watched: readonly string[] = []
  const tell = (message: object) => process.send?.(message)
  await keepBooks()
  // The test has ended, and so do its clients.
  process.once('disconnect', () => process.exit(0))
  process.on('message', async (order: Order) => {
    if ('look' in order) watched = order.look
    else if ('begin' in order) traffic = new Traffic(order.begin.target, order.begin.perSecond, watched)
    else tell({ books: await traffic?.end() })
  })
  tell({ open: true })
}
