/**
 * The clients of a fault run: every operation is issued here, timed on one clock and written to the history.
 *
 * Owns how requests look and how their answers are read; the caller decides which are sent.
 */

import { Readable } from 'node:stream'
import { Agent, request } from 'undici'
import type { Mode } from './application.ts'
import type { Reply } from './books.ts'
import { type Call, type Decision, type History, type Look, monoMs, type Submission } from './history.ts'
import { effectOf, effectOfAsking, letterOf, lockOf, type Sight, sightOf, wordsOf } from './operator-words.ts'
import { ANSWER_WITHIN_MS, OPERATOR_TOKEN, type Stage } from './stage.ts'

/** Words that must appear in no log: a credential, a piece of a body; the scan also looks for the keys of requests. */
export const CANARIES = {
  authorization: 'Bearer canary-5b1e0c7d',
  body: 'canary-body-93ac41',
  operator: OPERATOR_TOKEN,
} as const

/** The default of `FENCEPOST_BODY_LIMIT`. */
const BODY_LIMIT_BYTES = 1024 * 1024

export type Submit = {
  readonly sidecar: number
  readonly key: string
  readonly content?: string
  readonly tenant?: string
  readonly script?: readonly Mode[]
  /** The client disconnects after this long. */
  readonly leaveAfterMs?: number
}

export class Clients implements AsyncDisposable {
  readonly #stage: Stage
  readonly #history: History
  // No retries, no pipelining, and a connection per request: a fault of one must not hit another.
  readonly #agent = new Agent({ pipelining: 0, connections: 200, connectTimeout: 3_000 })
  /** The script with which a key was first sent: a retry is the same request. */
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
    this.#history.begin({ ...base, startMs })
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

  /**
   * A request whose body, sent in pieces, turns out too large at its end: it costs the sidecar memory and is not
   * executed. It is not an operation of the history.
   */
  async sendTooLarge(sidecar: number, key: string): Promise<void> {
    const piece = Buffer.alloc(64 * 1024, 'x')
    await request(`${this.#stage.sidecar(sidecar).proxy}/payments`, {
      dispatcher: this.#agent,
      method: 'POST',
      headers: { 'content-type': 'application/octet-stream', 'idempotency-key': key, 'x-tenant-id': 'acme' },
      body: Readable.from(Array.from({ length: BODY_LIMIT_BYTES / piece.length + 1 }, () => piece)),
      headersTimeout: ANSWER_WITHIN_MS,
      bodyTimeout: ANSWER_WITHIN_MS,
    })
      .then((response) => response.body.dump())
      .catch(() => {})
  }

  /** @param session the same one reserves again what it holds; default: a new one */
  reserve(
    sidecar: number,
    key: string,
    leaseMs: number,
    session = `s-${this.#ops + 1}`,
  ): Promise<Call & { readonly id: string }> {
    const body = { session_id: session, reserved_value: key, lease: `${leaseMs}ms` }
    return this.#call({ f: 'reserve', sidecar, key, token: undefined, session }, '/v1/reservations', body)
  }

  async end(
    f: 'extend' | 'release' | 'complete',
    sidecar: number,
    held: { readonly key: string; readonly id: string; readonly token: number | undefined },
  ): Promise<Call> {
    const { key, id, token } = held
    const path = `/v1/reservations/${id}/${f}`
    // One reservation always reports the same result; no two report the same.
    const result = f === 'complete' ? { result: `done-${token ?? 0}` } : {}
    return this.#call({ f, sidecar, key, token, ...result }, path, { fencing_token: token ?? 0, ...result })
  }

  /** Reads the state of a value. */
  standing(sidecar: number, key: string): Promise<Look> {
    return this.#look(
      { f: 'standing', sidecar, key, token: undefined },
      `/v1/reservations?value=${encodeURIComponent(key)}`,
    )
  }

  /** Reads the state of a reservation. */
  standingOf(
    sidecar: number,
    held: { readonly key: string; readonly id: string; readonly token: number | undefined },
  ): Promise<Look> {
    const { key, id, token } = held
    return this.#look({ f: 'standing-of', sidecar, key, token }, `/v1/reservations/${id}`)
  }

  /** Finds the record of a key as an operator; undefined where none is found, or the sidecar can't say. */
  async find(sidecar: number, of: Decision['of'], key: string): Promise<Sight | undefined> {
    const by =
      of === 'reservation'
        ? { reserved_value: key }
        : {
            tenant: 'acme',
            key: {
              method: 'POST',
              path: '/payments',
              idempotency_key: key,
              authorization: CANARIES.authorization,
            },
          }
    const found = await this.#asOperator(sidecar, '/v1/operator/records/find', by).catch(() => undefined)
    return found === undefined ? undefined : sightOf(found.answer)
  }

  /** The id of the open dead letter of the claim that it saw; undefined where none is found, or the sidecar can't say. */
  async letterOf(sidecar: number, sight: Sight): Promise<string | undefined> {
    const found = await this.#asOperator(sidecar, '/v1/operator/dead-letters?limit=200').catch(
      () => undefined,
    )
    return found === undefined ? undefined : letterOf(sight, found.answer)
  }

  /** Decides about what it saw, under the token that it saw. Undefined where nobody could open the application's books. */
  async decide(
    f: Decision['f'],
    sidecar: number,
    about: {
      readonly of: Decision['of']
      readonly key: string
      readonly sight: Sight
      readonly letter?: string
    },
  ): Promise<Decision | undefined> {
    const { of, key, sight, letter } = about
    this.#ops += 1
    const op = this.#ops
    const startMs = monoMs()
    const books = f === 'operator-ask' ? await this.#openBooks(sight) : undefined
    if (f === 'operator-ask' && books === undefined) return undefined
    const { body, result = bodyIn(books) } = wordsOf(f, of, op, sight)
    const base = {
      ...{ f, op, sidecar, of, key, token: sight.token, was: sight.state, healed: this.healed },
      ...(of === 'request' ? { tenant: 'acme' } : {}),
      ...(result === undefined ? {} : { result }),
      ...(books === undefined ? {} : { said: books.outcome }),
    }
    this.#history.begin({ ...base, startMs })
    let decision: Decision
    try {
      const at =
        letter === undefined ? `records/${encodeURIComponent(sight.record)}` : `dead-letters/${letter}`
      const path = `/v1/operator/${at}/${f.slice('operator-'.length)}`
      const { status, answer } = await this.#asOperator(sidecar, path, body)
      const code = String(answer.code ?? '')
      const was = sightOf({ records: [answer.before] })?.state ?? sight.state
      const plain = effectOf(status, answer)
      const { verdict } = answer
      const effect = books === undefined ? plain : effectOfAsking(plain, books.outcome, verdict)
      const told = verdict === undefined ? {} : { verdict: String(verdict) }
      decision = { ...base, ...told, was, type: 'ok', startMs, endMs: monoMs(), status, code, effect }
    } catch (error) {
      decision = { ...base, type: 'info', startMs, endMs: monoMs(), reason: reasonOf(error) }
    }
    this.#history.add(decision)
    return decision
  }

  async #openBooks(sight: Sight): Promise<Reply | undefined> {
    const asked = this.#ask(`${this.#stage.application.url}/books`, { lock_id: lockOf(sight) })
    return asked.then(({ answer }) => answer as unknown as Reply).catch(() => undefined)
  }

  async #call(
    what: Pick<Call, 'f' | 'sidecar' | 'key' | 'token' | 'session' | 'result'>,
    path: string,
    body: object,
  ): Promise<Call & { readonly id: string }> {
    this.#ops += 1
    const base = { ...what, op: this.#ops, healed: this.healed }
    const startMs = monoMs()
    this.#history.begin({ ...base, startMs })
    let call: Call
    let id = ''
    try {
      const { status, answer } = await this.#ask(`${this.#stage.sidecar(what.sidecar).api}${path}`, body)
      id = String(answer.reservation_id ?? '')
      call = {
        ...base,
        type: 'ok',
        token: what.f === 'reserve' && status === 201 ? Number(answer.fencing_token) : what.token,
        startMs,
        endMs: monoMs(),
        status,
        code: String(answer.code ?? ''),
        expiresInMs: Number(answer.expires_in_ms ?? 0),
        ...(what.f === 'reserve' && status === 201 ? { attempt: Number(answer.attempt) } : {}),
        ...(answer.reservation_status === 'DUPLICATE' ? { outcome: textOf(answer.result) } : {}),
      }
    } catch (error) {
      call = { ...base, type: 'info', startMs, endMs: monoMs(), reason: reasonOf(error) }
    }
    this.#history.add(call)
    return { ...call, id }
  }

  async #look(what: Pick<Look, 'f' | 'sidecar' | 'key' | 'token'>, path: string): Promise<Look> {
    this.#ops += 1
    const base = { ...what, op: this.#ops, healed: this.healed }
    const startMs = monoMs()
    this.#history.begin({ ...base, startMs })
    let look: Look
    try {
      const { status, answer } = await this.#ask(`${this.#stage.sidecar(what.sidecar).api}${path}`)
      // For one reservation the fields of the other call are in `intents`.
      const [of = answer] = Array.isArray(answer.intents) ? (answer.intents as Record<string, unknown>[]) : []
      look = {
        ...base,
        type: 'ok',
        startMs,
        endMs: monoMs(),
        status,
        code: String(answer.code ?? ''),
        state: String(answer.state ?? ''),
        shownToken: of.fencing_token === undefined ? undefined : Number(of.fencing_token),
        ...(answer.state === 'COMPLETED' ? { outcome: textOf(of.result) } : {}),
      }
    } catch (error) {
      look = { ...base, type: 'info', startMs, endMs: monoMs(), reason: reasonOf(error) }
    }
    this.#history.add(look)
    return look
  }

  #asOperator(sidecar: number, path: string, body?: object) {
    const authorization = `Bearer ${OPERATOR_TOKEN}`
    return this.#ask(`${this.#stage.sidecar(sidecar).operator}${path}`, body, { authorization })
  }

  async #ask(url: string, body?: object, headers: Readonly<Record<string, string>> = {}) {
    const response = await request(url, {
      dispatcher: this.#agent,
      ...(body === undefined
        ? { method: 'GET', headers }
        : {
            method: 'POST',
            headers: { 'content-type': 'application/json', ...headers },
            body: JSON.stringify(body),
          }),
      headersTimeout: ANSWER_WITHIN_MS,
      bodyTimeout: ANSWER_WITHIN_MS,
    })
    return { status: response.statusCode, answer: (await response.body.json()) as Record<string, unknown> }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy()
  }
}

/** The answer that the application sends along, as duplicates are to get it. */
function bodyIn(books: Reply | undefined): string | undefined {
  return books?.response === undefined
    ? undefined
    : Buffer.from(books.response.body_base64, 'base64').toString()
}

function textOf(result: unknown): string {
  return typeof result === 'string' ? result : JSON.stringify(result ?? null)
}

function codeOf(body: string): string {
  return /"code":"([a-z-]+)"/.exec(body)?.[1] ?? ''
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return 'code' in error ? String(error.code) : error.name
}
