/**
 * Traffic with known answers: new requests and duplicates of earlier ones, at every sidecar, without a pause in which a
 * node could be changed unseen.
 *
 * A request fails where its client gets neither the answer of the one execution nor, while that still runs, a 409: no
 * connection, a 5xx, or an answer that is not the first one's.
 */
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'undici'

const WORKERS_PER_SIDECAR = 3
const DUPLICATES = 0.6
/** Between two requests of a worker: enough load to notice a fault, not to fill two cores. */
const PAUSE_MS = 30

type Known = { readonly key: string; body: string | undefined }

export type Sent = {
  readonly requests: number
  readonly duplicates: number
  readonly replayed: number
  readonly inProgress: number
  readonly failures: readonly string[]
}

export class Load implements AsyncDisposable {
  readonly #origins: readonly string[]
  readonly #agent = new Agent({ connections: 50, pipelining: 0 })
  readonly #known: Known[] = []
  readonly #workers: Promise<void>[] = []
  readonly #failures: string[] = []
  #counts = { requests: 0, duplicates: 0, replayed: 0, inProgress: 0 }
  #running = true

  constructor(origins: readonly string[]) {
    this.#origins = origins
    for (const origin of origins)
      for (let worker = 0; worker < WORKERS_PER_SIDECAR; worker += 1) this.#workers.push(this.#work(origin))
  }

  get sent(): Sent {
    return { ...this.#counts, failures: this.#failures }
  }

  /** Of requests that were answered 201. */
  get keys(): readonly string[] {
    return this.#known.filter(({ body }) => body !== undefined).map(({ key }) => key)
  }

  async stop(): Promise<void> {
    this.#running = false
    await Promise.all(this.#workers)
  }

  /** Sends the first `count` keys once more, to the sidecars in turn: each must be replayed. */
  async askAgain(count: number): Promise<void> {
    const first = this.#known.filter(({ body }) => body !== undefined).slice(0, count)
    for (const [index, known] of first.entries()) {
      const origin = this.#origins[index % this.#origins.length] as string
      await this.#send(origin, known, true)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
    await this.#agent.close()
  }

  async #work(origin: string): Promise<void> {
    while (this.#running) {
      const earlier = this.#known[Math.floor(Math.random() * this.#known.length)]
      if (earlier !== undefined && Math.random() < DUPLICATES) await this.#send(origin, earlier, true)
      else {
        const known: Known = { key: randomUUID(), body: undefined }
        this.#known.push(known)
        // Twice at once, at two sidecars: one of them is the duplicate.
        await Promise.all([this.#send(origin, known, false), this.#send(this.#another(origin), known, true)])
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }

  #another(origin: string): string {
    return this.#origins.find((one) => one !== origin) ?? origin
  }

  async #send(origin: string, known: Known, duplicate: boolean): Promise<void> {
    this.#counts.requests += 1
    if (duplicate) this.#counts.duplicates += 1
    try {
      const answer = await request(`${origin}/payments`, {
        dispatcher: this.#agent,
        method: 'POST',
        headers: { 'idempotency-key': known.key, 'content-type': 'application/json' },
        body: '{"amount":1}',
      })
      this.#judge(
        known,
        answer.statusCode,
        String(answer.headers['idempotency-status']),
        await answer.body.text(),
      )
    } catch (error) {
      this.#failures.push(`${known.key}: no answer: ${(error as Error).message}`)
    }
  }

  #judge(known: Known, status: number, says: string, body: string): void {
    if (status === 409 && says === 'in-progress') this.#counts.inProgress += 1
    else if (status !== 201) this.#failures.push(`${known.key}: ${status} ${says} ${body.slice(0, 200)}`)
    else if (known.body !== undefined && known.body !== body)
      this.#failures.push(`${known.key}: answered ${body} after ${known.body}`)
    else {
      if (says === 'replayed') this.#counts.replayed += 1
      known.body = body
    }
  }
}
