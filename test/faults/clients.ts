/**
 * The clients of a fault run: every operation is issued here, timed on one clock and written to the history.
 *
 * Owns how requests look and how their answers are read; which are sent is up to the caller.
 */

import { Agent, request } from 'undici'
import type { Mode } from './application.ts'
import { type Call, type History, monoMs, type Submission } from './history.ts'
import { ANSWER_WITHIN_MS, type Stage } from './stage.ts'

/** Words that must appear in no log: a credential, a piece of a body; the keys of requests are looked for as well. */
export const CANARIES = { authorization: 'Bearer canary-5b1e0c7d', body: 'canary-body-93ac41' } as const

export type Submit = {
  readonly sidecar: number
  readonly key: string
  readonly content?: string
  readonly tenant?: string
  readonly script?: readonly Mode[]
  /** The client goes away after so long. */
  readonly leaveAfterMs?: number
}

export class Clients implements AsyncDisposable {
  readonly #stage: Stage
  readonly #history: History
  // No retries, no pipelining, and a connection a request: what a fault does to one must not be done to another.
  readonly #agent = new Agent({ pipelining: 0, connections: 200, connectTimeout: 3_000 })
  /** A retry is the same request: what a key was first sent with. */
  readonly #scripts = new Map<string, readonly Mode[]>()
  #ops = 0
  healed = false

  constructor(stage: Stage, history: History) {
    this.#stage = stage
    this.#history = history
  }

  async submit(what: Submit): Promise<Submission> {
    const { sidecar, key, content = 'c', tenant = 'acme', leaveAfterMs } = what
    const script = this.#scripts.get(key) ?? what.script ?? []
    this.#scripts.set(key, script)
    this.#ops += 1
    const op = this.#ops
    const base = { f: 'submit', op, sidecar, tenant, key, content, healed: this.healed } as const
    const startMs = monoMs()
    let submission: Submission
    try {
      const response = await request(`${this.#stage.sidecar(sidecar).proxy}/payments`, {
        dispatcher: this.#agent,
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'idempotency-key': key,
          'x-tenant-id': tenant,
          'x-operation': String(op),
          authorization: CANARIES.authorization,
        },
        body: JSON.stringify({ key, content, script, note: CANARIES.body }),
        headersTimeout: ANSWER_WITHIN_MS,
        bodyTimeout: ANSWER_WITHIN_MS,
        ...(leaveAfterMs === undefined ? {} : { signal: AbortSignal.timeout(leaveAfterMs) }),
      })
      const body = await response.body.text()
      submission = {
        ...base,
        type: 'ok',
        startMs,
        endMs: monoMs(),
        status: response.statusCode,
        says: String(response.headers['idempotency-status'] ?? ''),
        body,
        code: codeOf(body),
      }
    } catch (error) {
      submission = { ...base, type: 'info', startMs, endMs: monoMs(), reason: reasonOf(error) }
    }
    this.#history.add(submission)
    return submission
  }

  reserve(sidecar: number, key: string, leaseMs: number): Promise<Call & { readonly id: string }> {
    const body = { session_id: `s-${this.#ops + 1}`, reserved_value: key, lease: `${leaseMs}ms` }
    return this.#call('reserve', sidecar, key, '/v1/reservations', body, undefined)
  }

  async end(
    f: 'extend' | 'release' | 'complete',
    sidecar: number,
    held: { readonly key: string; readonly id: string; readonly token: number | undefined },
  ): Promise<Call> {
    const path = `/v1/reservations/${held.id}/${f}`
    return this.#call(f, sidecar, held.key, path, { fencing_token: held.token ?? 0 }, held.token)
  }

  async #call(
    f: Call['f'],
    sidecar: number,
    key: string,
    path: string,
    body: object,
    token: number | undefined,
  ): Promise<Call & { readonly id: string }> {
    this.#ops += 1
    const base = { f, op: this.#ops, sidecar, key, healed: this.healed }
    const startMs = monoMs()
    let call: Call
    let id = ''
    try {
      const response = await request(`${this.#stage.sidecar(sidecar).api}${path}`, {
        dispatcher: this.#agent,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        headersTimeout: ANSWER_WITHIN_MS,
        bodyTimeout: ANSWER_WITHIN_MS,
      })
      const answer = (await response.body.json()) as Record<string, unknown>
      id = String(answer.reservation_id ?? '')
      call = {
        ...base,
        type: 'ok',
        token: f === 'reserve' && response.statusCode === 201 ? Number(answer.fencing_token) : token,
        startMs,
        endMs: monoMs(),
        status: response.statusCode,
        code: String(answer.code ?? ''),
        expiresInMs: Number(answer.expires_in_ms ?? 0),
      }
    } catch (error) {
      call = { ...base, type: 'info', token, startMs, endMs: monoMs(), reason: reasonOf(error) }
    }
    this.#history.add(call)
    return { ...call, id }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy()
  }
}

function codeOf(body: string): string {
  return /"code":"([a-z-]+)"/.exec(body)?.[1] ?? ''
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return 'code' in error ? String(error.code) : error.name
}
