/**
 * Fastify with its routes and its body parsing, for listeners with paths of their own; with every limit written out.
 *
 * Owns limits of heads, bodies, times and connections, and TLS. Requests of applications, whose paths are not ours, arrive on
 * `listener.ts`.
 */

import type { Server as TlsServer } from 'node:https'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { type FaultLimits, timeoutCheckMs } from './connection-faults.ts'
import { type ConnectionLimit, limitConnections } from './connection-limit.ts'
import { keepTlsFresh, type ListenerTls, serverOptions } from './tls.ts'

export type RoutedLimits = FaultLimits &
  ConnectionLimit & {
    readonly bodyBytesMax: number
    readonly keepAliveTimeoutMs: number
  }

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
    // Ids are longer than Fastify's default; they have a limit of their own where they are read.
    routerOptions: { maxParamLength: limits.headerBytesMax },
    ...serverOptions(
      {
        maxHeaderSize: limits.headerBytesMax,
        headersTimeout: limits.headersTimeoutMs,
        connectionsCheckingInterval: timeoutCheckMs(limits),
        insecureHTTPParser: false,
      },
      tls,
    ),
    ...own,
  })
  limitConnections(app.server, limits)
  if (tls !== undefined) keepTlsFresh(app.server as unknown as TlsServer, tls)
  return app
}
