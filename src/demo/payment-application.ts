/**
 * The application of the demonstration: takes payments, and counts the charges that it really executed.
 *
 * It deduplicates nothing itself: it charges for every request that reaches it.
 */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** @param workMs duration of one charge */
export async function startPaymentApplication(workMs: number) {
  const charges = new Map<string, number>()
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      if (request.method !== 'POST') return response.writeHead(404).end()
      const { payment, amount } = JSON.parse(Buffer.concat(parts).toString()) as {
        payment: string
        amount: number
      }
      const charge = (charges.get(payment) ?? 0) + 1
      charges.set(payment, charge)
      setTimeout(() => {
        response.writeHead(201, { 'content-type': 'application/json' })
        response.end(
          JSON.stringify({
            payment,
            amount,
            charge,
            fencing_token: Number(request.headers['fencepost-fencing-token']),
          }),
        )
      }, workMs)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    /** Executed charges, by payment. */
    charges,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
