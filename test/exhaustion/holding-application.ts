/** An application that answers at once, but holds requests of /held, and answers /large at length. */
import { createServer, type ServerResponse } from 'node:http'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'

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
  const at = await listening(server)
  return {
    url: at.origin,
    held: async () => {
      await eventually('a held request', () => waiting.length > 0, { withinMs: 15_000 })
    },
    letGo: () => {
      for (const response of waiting.splice(0)) response.writeHead(201).end('held')
    },
    get executionsOfHeld() {
      return executionsOfHeld
    },
    [Symbol.asyncDispose]: at[Symbol.asyncDispose],
  }
}
