/**
 * The admin listener: probes for the kubelet, metrics for Prometheus.
 *
 *   /livez     the event loop turns; never anything of Redis, or an outage there would restart every pod
 *   /startupz  configuration is parsed and all listeners are open; not the quorum, or an outage there would block every start
 *   /readyz    requests can be served now; the reasons why not stand in the body
 *   /metrics   Prometheus exposition
 */

import type { FastifyInstance } from 'fastify'
import { createRoutedListener, type RoutedLimits } from '../server/routed-listener.ts'
import type { ListenerTls } from '../server/tls.ts'

export type Readiness = {
  readonly ready: boolean
  readonly reasons: readonly string[]
  /** Of recent claims; absent where they are too few. */
  readonly acquireP95Ms?: number
  readonly nodes: readonly NodeView[]
}
export type NodeView = {
  readonly name: string
  /** The quorum that it is of, where there are several. */
  readonly group?: string
  readonly state: string
  readonly reason?: string
  /** When the server process of the node was started, where it is known. */
  readonly startedWallMs?: number
  /** How much of its memory it uses, where that is known and has a limit. */
  readonly memoryShare?: number
}

export const HEADER_BYTES_MAX = 8 * 1024
export const REQUEST_TIMEOUT_MS = 5_000
export const CONNECTIONS_MAX = 256

/** Probes and scrapes are small GETs from inside the cluster, over a few connections: what is larger is not one of them. */
const LIMITS: RoutedLimits = {
  headerBytesMax: HEADER_BYTES_MAX,
  bodyBytesMax: 1024,
  headersTimeoutMs: REQUEST_TIMEOUT_MS,
  requestTimeoutMs: REQUEST_TIMEOUT_MS,
  keepAliveTimeoutMs: 72_000,
  connectionsMax: CONNECTIONS_MAX,
}

export type AdminPorts = {
  readonly readiness: () => Readiness
  readonly started: () => boolean
  /** @param accept what the scrape asks for: OpenMetrics carries exemplars, the older text format does not */
  readonly scrape: (
    accept: string | undefined,
  ) => Promise<{ readonly contentType: string; readonly text: string }>
  readonly tls: ListenerTls | undefined
}

export function createAdminServer({ readiness, started, scrape, tls }: AdminPorts): FastifyInstance {
  const server = createRoutedListener(LIMITS, tls, {
    return503OnClosing: true,
    clientErrorHandler: (_error, socket) => {
      // Whoever sends this is no probe: it is told in one line, and nothing of what it sent.
      if (socket.writable)
        socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
      socket.destroySoon()
    },
  })
  server.get('/livez', (_, reply) => reply.type('text/plain').send('ok\n'))
  server.get('/startupz', (_, reply) =>
    started()
      ? reply.type('text/plain').send('ok\n')
      : reply.code(503).type('text/plain').send('listeners are not open yet\n'),
  )
  server.get('/readyz', (_, reply) => {
    const state = readiness()
    return reply.code(state.ready ? 200 : 503).send(state)
  })
  server.get('/metrics', async (request, reply) => {
    const { contentType, text } = await scrape(request.headers.accept)
    return reply.type(contentType).send(text)
  })
  return server
}
