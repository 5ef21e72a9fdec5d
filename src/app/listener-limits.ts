/** The limits of every listener for clients' requests: as configured, and as many connections as memory allows; and what is told of those beyond. */

import type { Config } from '../config/load.ts'
import type { Clock } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import type { ConnectionLimit } from '../http/server/connection-limit.ts'
import type { ListenerLimits } from '../http/server/listener.ts'

/** With the number of connections, whoever said it, and who hears of those beyond. */
export type SizedConfig = Config & Required<ConnectionLimit>

/** Beside it there is room for what requests under way take: 239 of 384 MiB (docs/operations/capacity.md). */
const SHARE = 1 / 3

/** What a connection takes that has served a request and is idle: 34 and 93 KiB were measured. */
const CONNECTION_BYTES = 32 * 1024
const TLS_CONNECTION_BYTES = 96 * 1024

/** Also without a memory limit: there is a limit of descriptors, too. */
const CONNECTIONS_MAX = 20_000

/** @param memoryLimitBytes of the container; undefined if it has none */
export function sized(
  config: Config,
  memoryLimitBytes: number | undefined,
): Config & { readonly connectionsMax: number } {
  return { ...config, connectionsMax: config.connectionsMax ?? connectionsIn(memoryLimitBytes, config) }
}

export function connectionsIn(
  memoryLimitBytes: number | undefined,
  { tlsCert }: Pick<Config, 'tlsCert'>,
): number {
  if (memoryLimitBytes === undefined) return CONNECTIONS_MAX
  const each = tlsCert === undefined ? CONNECTION_BYTES : TLS_CONNECTION_BYTES
  return Math.max(1, Math.min(CONNECTIONS_MAX, Math.floor((memoryLimitBytes * SHARE) / each)))
}

/** For each listener by itself. */
export function connectionLimit({ connectionsMax, onConnectionRefused }: SizedConfig): ConnectionLimit {
  return { connectionsMax, onConnectionRefused }
}

const TOLD_EVERY_MS = 1_000

/** Clients that are refused come again at once, and a flood of them must not be a flood of lines: at most one event a second. */
export function countRefusedConnections(
  { clock, events }: { readonly clock: Clock; readonly events: Events },
  { connectionsMax: limit }: ConnectionLimit,
): () => void {
  let refused = 0
  return () => {
    refused += 1
    if (refused > 1) return
    clock.timer(TOLD_EVERY_MS, () => {
      events.publish({ kind: 'connections_refused', refused, limit })
      refused = 0
    })
  }
}

export function listenerLimits(config: SizedConfig): ListenerLimits {
  return {
    headerBytesMax: config.headerLimitBytes,
    headersTimeoutMs: config.headersTimeoutMs,
    requestTimeoutMs: config.requestTimeoutMs,
    keepAliveTimeoutMs: config.keepAliveTimeoutMs,
    requestsPerConnectionMax: config.requestsPerConnection,
    ...connectionLimit(config),
    readerIdleMs: config.readerIdleMs,
  }
}
