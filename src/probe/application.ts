/**
 * The application behind a probed proxy: the probe itself, so that no real one ever sees a synthetic request, and so that
 * executions are counted where they happen.
 *
 * It executes only what a volley under way has announced; whatever else comes is answered 404.
 */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export type ProbedApplication = AsyncDisposable & {
  readonly url: string
  /** From now on until it is forgotten, executions with this key are counted. */
  expect(key: string): { readonly executions: () => number; readonly forget: () => void }
}

/** Far above what a sidecar keeps an idle connection: it is the sidecar that closes, and no request meets a closed one. */
const KEEP_ALIVE_MS = 60_000

export async function startApplication(host: string, port: number): Promise<ProbedApplication> {
  const counted = new Map<string, number>()
  let executions = 0
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    request.resume().on('end', () => {
      const key = String(request.headers['idempotency-key'])
      const before = counted.get(key)
      if (before === undefined) {
        response.writeHead(404).end()
        return
      }
      counted.set(key, before + 1)
      executions += 1
      // Each execution answers something else: two of them can't pass for one.
      response.writeHead(201, { 'content-type': 'application/json' }).end(`{"execution":${executions}}`)
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    expect: (key) => {
      counted.set(key, 0)
      return { executions: () => counted.get(key) ?? 0, forget: () => void counted.delete(key) }
    },
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
