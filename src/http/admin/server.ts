/**
 * The admin listener: probes for the kubelet, metrics for Prometheus.
 *
 *   /livez     the event loop turns; never anything of Redis, or an outage there would restart every pod
 *   /startupz  configuration is parsed and all listeners are open; not the quorum, or an outage there would block every start
 *   /readyz    requests can be served now; the reasons why not stand in the body
 *   /metrics   Prometheus exposition
 */

import { type FastifyInstance, fastify } from 'fastify'

export type Readiness = {
  readonly ready: boolean
  readonly reasons: readonly string[]
  readonly nodes: readonly NodeView[]
}
export type NodeView = { readonly name: string; readonly state: string; readonly reason?: string }

export type AdminPorts = {
  readonly readiness: () => Readiness
  readonly started: () => boolean
  readonly scrape: () => Promise<{ readonly contentType: string; readonly text: string }>
}

export function createAdminServer({ readiness, started, scrape }: AdminPorts): FastifyInstance {
  const server = fastify({
    logger: false,
    // Probes and scrapes are small GETs from inside the cluster: what takes longer is not one of them.
    bodyLimit: 1024,
    connectionTimeout: 10_000,
    requestTimeout: 5_000,
    keepAliveTimeout: 72_000,
    forceCloseConnections: true,
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
  server.get('/metrics', async (_, reply) => {
    const { contentType, text } = await scrape()
    return reply.type(contentType).send(text)
  })
  return server
}
