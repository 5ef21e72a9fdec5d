/** An application that answers at once, but holds requests of /held, and answers /large at length. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { eventually } from '../support/eventually.ts'

export type StrictHold = AsyncDisposable & {
  readonly url: string
  /** Resolves when a request is held. */
  held(): Promise<void>
  letGo(): void
  /** Requests of /held that arrived: one of all duplicates may. */
  readonly executionsOfHeld: number
}

const LARGE = Buffer.alloc(200 * 1024, 'x')

export async function startHoldingApplication(): Promise<StrictHold> {
  const waiting: ServerResponse[] = []
  let executionsOfHeld = 0
  const server = createServer((request, response) => {
    request.resume()
    request.on('error', () => {})
    response.on('error', () => {})
    if (request.url === '/held') {
      executionsOfHeld += 1
      waiting.push(response)
    } else response.writeHead(201).end(request.url === '/large' ? LARGE : 'ok')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    held: async () => {
      await eventually('a held request', () => waiting.length > 0, { withinMs: 15_000 })
    },
    letGo: () => {
      for (const response of waiting.splice(0)) response.writeHead(201).end('held')
    },
    get executionsOfHeld() {
      return executionsOfHeld
    },
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
