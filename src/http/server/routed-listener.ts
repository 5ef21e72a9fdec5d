/**
 * Fastify with its routes and its body parsing, for listeners whose paths are our own, with every limit written out.
 *
 * Owns limits of heads, bodies, times and connections, and TLS. Requests that are somebody else's, and are taken whole,
 * arrive on `listener.ts`.
 */

import type { Server as TlsServer } from 'node:https'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import type { FaultLimits } from './connection-faults.ts'
import { keepTlsFresh, type ListenerTls, serverOptions } from './tls.ts'

export type RoutedLimits = FaultLimits & {
  readonly bodyBytesMax: number
  readonly keepAliveTimeoutMs: number
  readonly connectionsMax: number
}

/** How often connections are looked at for the timeouts of heads and requests. */
const TIMEOUT_CHECK_MS = 500

export function createRoutedListener(
  limits: RoutedLimits,
  tls: ListenerTls | undefined,
  own: Pick<FastifyServerOptions, 'clientErrorHandler' | 'frameworkErrors' | 'return503OnClosing'>,
): FastifyInstance {
  const app = Fastify({
    logger: false,
    bodyLimit: limits.bodyBytesMax,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionTimeout: 0,
    forceCloseConnections: true,
    // Ids are longer than Fastify's default; their own limit is checked where they are read.
    routerOptions: { maxParamLength: limits.headerBytesMax },
    ...serverOptions(
      {
        maxHeaderSize: limits.headerBytesMax,
        headersTimeout: limits.headersTimeoutMs,
        connectionsCheckingInterval: TIMEOUT_CHECK_MS,
        insecureHTTPParser: false,
      },
      tls,
    ),
    ...own,
  })
  app.server.maxConnections = limits.connectionsMax
  if (tls !== undefined) keepTlsFresh(app.server as unknown as TlsServer, tls)
  return app
}
