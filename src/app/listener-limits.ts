/** The limits of every listener for clients' requests, as configured. */

import type { Config } from '../config/load.ts'
import type { ListenerLimits } from '../http/server/listener.ts'

export function listenerLimits(config: Config): ListenerLimits {
  return {
    headerBytesMax: config.headerLimitBytes,
    headersTimeoutMs: config.headersTimeoutMs,
    requestTimeoutMs: config.requestTimeoutMs,
    keepAliveTimeoutMs: config.keepAliveTimeoutMs,
    requestsPerConnectionMax: config.requestsPerConnection,
    connectionsMax: config.connectionsMax,
    readerIdleMs: config.readerIdleMs,
  }
}
