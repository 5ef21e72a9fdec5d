/**
 * The limits of every listener for clients' requests: as configured, and as many connections and as much of bodies as memory allows; and
 * what is told of connections beyond.
 */

import type { Config } from '../config/load.ts'
import type { Clock } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import { policiesOf } from '../core/routes/route.ts'
import { REQUESTS_SHARE } from '../http/server/body-memory.ts'
import type { ConnectionLimit } from '../http/server/listening.ts'

/** With the number of connections, whoever said it, and who hears of those beyond. */
export type SizedConfig = Config & Required<ConnectionLimit>

/** Beside it there is room for what requests under way take: 239 of 384 MiB (docs/operations/capacity.md). */
const CONNECTIONS_SHARE = 1 / 3

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

function connectionsIn(memoryLimitBytes: number | undefined, { tlsCert }: Pick<Config, 'tlsCert'>): number {
  if (memoryLimitBytes === undefined) return CONNECTIONS_MAX
  const each = tlsCert === undefined ? CONNECTION_BYTES : TLS_CONNECTION_BYTES
  return Math.max(1, Math.min(CONNECTIONS_MAX, Math.floor((memoryLimitBytes * CONNECTIONS_SHARE) / each)))
}

/** For each listener by itself. */
export function connectionLimit({ connectionsMax, onConnectionRefused }: SizedConfig): ConnectionLimit {
  return { connectionsMax, onConnectionRefused }
}

const REPORT_EVERY_MS = 1_000

/** Clients that are refused come again at once, and a flood of them must not be a flood of lines: at most one event a second. */
export function countRefusedConnections(
  { clock, events }: { readonly clock: Clock; readonly events: Events },
  { connectionsMax: limit }: ConnectionLimit,
): () => void {
  let refused = 0
  return () => {
    refused += 1
    if (refused > 1) return
    clock.timer(REPORT_EVERY_MS, () => {
      events.publish({ kind: 'connections_refused', refused, limit })
      refused = 0
    })
  }
}

/** Of any HTTP: its head, and its connection. */
export function headLimits(config: SizedConfig) {
  return {
    headerBytesMax: config.headerLimitBytes,
    headersTimeoutMs: config.headersTimeoutMs,
    requestTimeoutMs: config.requestTimeoutMs,
    keepAliveTimeoutMs: config.keepAliveTimeoutMs,
    ...connectionLimit(config),
  }
}

/** Of requests that are protected, or asked about. */
export function listenerLimits(config: SizedConfig) {
  return {
    ...headLimits(config),
    requestsPerConnectionMax: config.requestsPerConnection,
    readerIdleMs: config.readerIdleMs,
    inFlightMax: config.maxInFlight,
    headerLinesMax: config.headerLinesMax,
  }
}

/** Of a message in JSON that carries a body: in base64, or with what a text escapes, and with as much around it as a head has. */
export function jsonBytesMax(bodyBytesMax: number): number {
  return Math.ceil(bodyBytesMax * 1.4) + 64 * 1024
}

/**
 * Of the memory limit. A body costs up to twice its length while its parts become one, and the rest of the container is for what a
 * process needs with as many small requests under way as it admits: 252 of 384 MiB (docs/operations/capacity.md).
 */
const BODIES_SHARE = 1 / 6

/** Without a memory limit there is no measure, and other programs share the machine. */
const UNLIMITED_BYTES = 256 * 2 ** 20

/** @param memoryLimitBytes of the container; undefined if it has none */
export function bodyMemoryBytes(
  { bodyMemoryBytes: given, routes }: Pick<Config, 'bodyMemoryBytes' | 'routes'>,
  memoryLimitBytes: number | undefined,
): number {
  if (given !== undefined) return given
  const longest = longestBodyBytes(routes)
  const share = memoryLimitBytes === undefined ? UNLIMITED_BYTES : Math.floor(memoryLimitBytes * BODIES_SHARE)
  return Math.max(share, Math.ceil(longest / REQUESTS_SHARE))
}

/** That some route protects, or observes. */
export function longestBodyBytes(routes: Config['routes']): number {
  return Math.max(0, ...routes.flatMap(policiesOf).map(({ bodyLimitBytes }) => bodyLimitBytes))
}
