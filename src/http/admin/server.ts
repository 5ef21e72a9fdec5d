/**
 * The admin listener: probes for the kubelet, metrics for Prometheus.
 *
 *   /livez     the event loop runs; never the state of Redis, or its outage would restart every pod
 *   /startupz  all listeners are open; never the quorum, or its outage would block every start
 *   /readyz    requests can be served now; the body has the reasons why not
 *   /metrics   Prometheus exposition
 *   /observed  what routes in mode observe would have done, for `fencepost observe report`
 */

import type { FastifyInstance } from 'fastify'
import type { NodeStatus } from '../../core/node-status.ts'
import { createRoutedListener, type RoutedLimits } from '../server/json-listener.ts'
import { type ListenerTls, oldestGivesWay } from '../server/listening.ts'

export type Readiness = {
  readonly ready: boolean
  readonly reasons: readonly string[]
  /** Of recent claims; absent if these are too few. */
  readonly acquireP95Ms?: number
  readonly nodes: readonly NodeStatus[]
}

const HEADER_BYTES_MAX = 8 * 1024
export const REQUEST_TIMEOUT_MS = 5_000
export const CONNECTIONS_MAX = 256

/** Probes and scrapes are small GETs from inside the cluster, over a few short connections; nothing else is served. */
const LIMITS: RoutedLimits = {
  headerBytesMax: HEADER_BYTES_MAX,
  bodyBytesMax: 1024,
  headersTimeoutMs: REQUEST_TIMEOUT_MS,
  requestTimeoutMs: REQUEST_TIMEOUT_MS,
  keepAliveTimeoutMs: 72_000,
  connectionsMax: CONNECTIONS_MAX,
}

type AdminPorts = {
  readonly readiness: () => Readiness
  readonly started: () => boolean
  /** @param accept of the scrape: OpenMetrics has exemplars, the older text format does not */
  readonly scrape: (
    accept: string | undefined,
  ) => Promise<{ readonly contentType: string; readonly text: string }>
  /** JSON. */
  readonly observed: () => unknown
  readonly tls: ListenerTls | undefined
}

export function createAdminServer({
  readiness,
  started,
  scrape,
  observed,
  tls,
}: AdminPorts): FastifyInstance {
  const server = createRoutedListener(LIMITS, tls, {
    return503OnClosing: true,
    clientErrorHandler: (_error, socket) => {
      // Not a probe: one line is enough, and repeats no input.
      if (socket.writable)
        socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
      socket.destroySoon()
    },
  })
  // A probe that gets no connection is a pod that is restarted.
  oldestGivesWay(server.server, CONNECTIONS_MAX)
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
  server.get('/observed', (_, reply) => reply.send(observed()))
  server.get('/metrics', async (request, reply) => {
    const { contentType, text } = await scrape(request.headers.accept)
    return reply.type(contentType).send(text)
  })
  return server
}
