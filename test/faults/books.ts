/**
 * The books of the application of a fault run: what became of each request that it was given, for whoever asks.
 *
 * Owns the truth of its replies. Until its books about a claim are opened it says `unknown`, so that the sweeper leaves
 * the question to an operator; from then on it says the same to everyone. It judges by the record and by the tokens up to
 * the one in question, because an attempt that was ended or never arrived has a token that the application never saw.
 * Who says "not executed" refuses that token, and all below it, from then on.
 */

import type { Said } from './history.ts'

type Started = { readonly op: number; readonly token: number; readonly answer: string; ended: boolean }

export type Reply = {
  readonly outcome: Said
  readonly response?: {
    readonly status: number
    readonly headers: Readonly<Record<string, string>>
    readonly body_base64: string
  }
}

/** A lock id: the digits of a record and a token. */
export function partsOf(lock: string): { readonly record: string; readonly token: number } {
  const [record = '', token] = lock.split('-')
  return { record, token: Number(token) }
}

export class Books {
  readonly #started = new Map<string, Started[]>()
  readonly #renounced = new Map<string, number>()
  readonly #open = new Map<string, Reply>()

  started(lock: string, op: number, answer: string): void {
    const { record, token } = partsOf(lock)
    const known = this.#started.get(record) ?? []
    known.push({ op, token, answer, ended: false })
    this.#started.set(record, known)
  }

  ended(lock: string, op: number): void {
    const { record, token } = partsOf(lock)
    for (const one of this.#started.get(record) ?? [])
      if (one.op === op && one.token === token) one.ended = true
  }

  /** It said that nothing up to this token was executed. */
  renounced(lock: string): void {
    const { record, token } = partsOf(lock)
    this.#renounced.set(record, Math.max(token, this.#renounced.get(record) ?? 0))
  }

  refuses(lock: string): boolean {
    const { record, token } = partsOf(lock)
    return token <= (this.#renounced.get(record) ?? 0)
  }

  /** @param renounce writes down, before anyone is told, that nothing up to this token will be executed */
  open(lock: string, renounce: () => void): Reply {
    const reply = this.#open.get(lock) ?? this.#look(lock)
    if (reply.outcome === 'released') renounce()
    if (reply.outcome !== 'unknown') this.#open.set(lock, reply)
    return reply
  }

  says(lock: string): Reply {
    return this.#open.get(lock) ?? { outcome: 'unknown' }
  }

  #look(lock: string): Reply {
    const { record, token } = partsOf(lock)
    const upTo = (this.#started.get(record) ?? []).filter((one) => one.token <= token)
    if (upTo.some(({ ended }) => !ended)) return { outcome: 'unknown' }
    const last = upTo.toSorted((a, b) => a.token - b.token).at(-1)
    if (last === undefined) return { outcome: 'released' }
    return {
      outcome: 'completed',
      response: {
        status: 201,
        headers: { 'content-type': 'application/json' },
        body_base64: Buffer.from(last.answer).toString('base64'),
      },
    }
  }
}
