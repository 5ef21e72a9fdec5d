/**
 * The payment provider: another company's computer. It honours idempotency keys, and has its moods: it declines, fails
 * before or after it has charged, answers too late, or hangs. A refund of a key that it has not seen bars that key, so
 * that a charge that was overtaken by its refund has no effect.
 *
 * It lives in the process that is never killed, and keeps books of its own, which the audit compares with ours.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

export type Charge = { readonly orderId: string; readonly amount: number; refunded: boolean }

/** Shares of requests, the rest being answered properly. */
export type Moods = {
  readonly decline: number
  readonly failBefore: number
  readonly failAfter: number
  readonly late: number
  readonly hang: number
}

export type Provider = AsyncDisposable & {
  readonly url: string
  readonly charges: ReadonlyMap<string, Charge>
  readonly requests: number
  readonly declined: number
}

const lateMs = 4_000

export async function startProvider(moods: Moods, fraction: () => number): Promise<Provider> {
  const charges = new Map<string, Charge>()
  const barred = new Set<string>()
  /** The same key is declined for ever: a retry does not change the card. */
  const declined = new Set<string>()
  let requests = 0

  function charge(key: string, orderId: string, amount: number): { status: number; body: unknown } {
    if (declined.has(key)) return { status: 402, body: { code: 'declined' } }
    if (barred.has(key)) return { status: 409, body: { code: 'cancelled' } }
    if (!charges.has(key)) charges.set(key, { orderId, amount, refunded: false })
    return { status: 200, body: { chargeId: key } }
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requests += 1
    const key = String(request.headers['idempotency-key'])
    let text = ''
    for await (const chunk of request) text += chunk
    const { orderId, amount } = JSON.parse(text || '{}')
    const answer = (status: number, body: unknown) => response.writeHead(status).end(JSON.stringify(body))
    if (request.url === '/refunds') {
      const done = charges.get(orderId)
      if (done === undefined) barred.add(orderId)
      else done.refunded = true
      answer(200, {})
      return
    }
    let dice = fraction()
    const falls = (share: number) => {
      const hit = dice >= 0 && dice < share
      dice -= share
      return hit
    }
    if (falls(moods.decline) && !charges.has(key)) declined.add(key)
    if (falls(moods.failBefore)) return void answer(503, { code: 'unavailable' })
    if (falls(moods.hang)) return
    const { status, body } = charge(key, orderId, amount)
    if (falls(moods.failAfter)) return void request.socket.destroy()
    if (falls(moods.late)) await pause(lateMs, undefined, { ref: false })
    answer(status, body)
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  server.keepAliveTimeout = 60_000
  await new Promise<void>((resolve) => server.listen({ host: '127.0.0.1', port: 0 }, resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    charges,
    get requests() {
      return requests
    },
    get declined() {
      return declined.size
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
