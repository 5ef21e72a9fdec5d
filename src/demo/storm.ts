/**
 * A storm of duplicates: every payment sent many times over, in random order. The second half of the requests has
 * payments of its own, so that a fault half way meets new ones as well.
 */

import { Pool } from 'undici'

export type StormOptions = {
  readonly proxyUrl: string
  readonly payments: number
  readonly copies: number
  /** Requests in flight at the same time. */
  readonly concurrency: number
  readonly onAnswer: (tally: Tally) => void
  /** Runs after the answers to the first half of the payments, before the requests of the second. */
  readonly onHalfWay: () => Promise<void>
}

/** What the clients received. `differing`: replays whose bytes differ from the first answer to their payment. */
export type Tally = {
  answered: number
  created: number
  replayed: number
  conflicts: number
  errors: number
  differing: number
  lastError: string
}

export async function runStorm(options: StormOptions): Promise<Tally> {
  const tally: Tally = {
    answered: 0,
    created: 0,
    replayed: 0,
    conflicts: 0,
    errors: 0,
    differing: 0,
    lastError: '',
  }
  const pool = new Pool(options.proxyUrl, { connections: options.concurrency, pipelining: 1 })
  const bodies = new Map<string, string>()

  async function send(payment: string): Promise<void> {
    try {
      const answer = await pool.request({
        method: 'POST',
        path: '/payments',
        headers: { 'content-type': 'application/json', 'idempotency-key': payment },
        body: JSON.stringify({ payment, amount: 4200 }),
      })
      const body = await answer.body.text()
      if (answer.statusCode === 201) {
        if (answer.headers['idempotent-replayed'] === 'true') tally.replayed += 1
        else tally.created += 1
        if ((bodies.get(payment) ?? body) !== body) tally.differing += 1
        bodies.set(payment, body)
      } else if (answer.statusCode === 409) tally.conflicts += 1
      else {
        tally.errors += 1
        tally.lastError = `${answer.statusCode} ${body}`
      }
    } catch (cause) {
      tally.errors += 1
      tally.lastError = String(cause)
    }
    tally.answered += 1
    options.onAnswer(tally)
  }

  async function sendAll(payments: readonly string[]): Promise<void> {
    const copies = Array.from(
      { length: payments.length * options.copies },
      (_, i) => payments[i % payments.length]!,
    )
    const queue = shuffled(copies).values()
    const worker = async () => {
      // All workers share one iterator.
      for (const payment of queue) await send(payment)
    }
    await Promise.all(Array.from({ length: options.concurrency }, worker))
  }

  const payments = Array.from({ length: options.payments }, (_, i) => `payment-${1 + i}`)
  const half = Math.ceil(payments.length / 2)
  await sendAll(payments.slice(0, half))
  await options.onHalfWay()
  await sendAll(payments.slice(half))
  await pool.close()
  return tally
}

function shuffled<T>(items: T[]): T[] {
  for (let i = items.length - 1; i > 0; i -= 1) {
    const j = Math.floor(Math.random() * (i + 1))
    ;[items[i], items[j]] = [items[j]!, items[i]!]
  }
  return items
}
