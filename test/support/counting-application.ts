/**
 * An application that executes every request and counts the executions: the judge of every test that says "once". It
 * answers at once, or holds its answers until the test lets them go.
 */

import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { eventually } from './eventually.ts'
import { listening } from './listening.ts'

type Execution = {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** The `Idempotency-Key` that the application got. */
  readonly key: string
  readonly token: number
  readonly attempt: number
}

export type CountingApplication = AsyncDisposable & {
  readonly url: string
  readonly executions: readonly Execution[]
  /** Executions of one key. */
  of(key: string): readonly Execution[]
  /** From now on answers wait; {@link CountingApplication.letGo} sends them. */
  hold(): void
  /** Sends all held answers, and holds no more. */
  letGo(): void
  /** Resolves when `count` requests have arrived. */
  arrived(count: number): Promise<void>
}

export async function startCountingApplication(): Promise<CountingApplication> {
  const executions: Execution[] = []
  const held: (() => void)[] = []
  let holding = false
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const { headers } = request
      const execution: Execution = {
        method: request.method ?? '',
        url: request.url ?? '',
        headers,
        body: Buffer.concat(parts).toString(),
        key: String(headers['idempotency-key'] ?? ''),
        token: Number(headers['fencepost-fencing-token'] ?? 0),
        attempt: Number(headers['fencepost-attempt'] ?? 0),
      }
      executions.push(execution)
      const number = executions.length
      if (holding) held.push(() => answer(response, execution, number))
      else answer(response, execution, number)
    })
  })
  const served = await listening(server)
  return {
    url: served.origin,
    executions,
    of: (key) => executions.filter((execution) => execution.key === key),
    hold: () => {
      holding = true
    },
    letGo: () => {
      holding = false
      for (const go of held.splice(0)) go()
    },
    arrived: async (count) => {
      await eventually(`${count} requests at the application`, () => executions.length >= count, {
        withinMs: 15_000,
      })
    },
    [Symbol.asyncDispose]: served[Symbol.asyncDispose],
  }
}

/** Each execution has a different answer, so that a replay shows which one it repeats. */
function answer(response: ServerResponse, { key, token }: Execution, number: number): void {
  response.writeHead(201, { 'content-type': 'application/json', 'x-execution': String(number) })
  response.end(JSON.stringify({ key, execution: number, token }))
}
