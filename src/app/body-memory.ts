/** How much memory bodies may fill, where the configuration does not say: a part of what the container has. */

import type { Config } from '../config/load.ts'
import { policiesOf } from '../core/routes/route.ts'
import { REQUESTS_SHARE } from '../http/server/body-memory.ts'

/**
 * Of the memory limit. A body costs up to twice its length while its parts become one, and the rest of the container is for what a
 * process needs with as many small requests under way as it admits: 252 of 384 MiB (docs/operations/capacity.md).
 */
const SHARE = 1 / 6

/** Without a memory limit there is no measure, and other programs share the machine. */
const UNLIMITED_BYTES = 256 * 2 ** 20

/** @param memoryLimitBytes of the container; undefined if it has none */
export function bodyMemoryBytes(
  { bodyMemoryBytes: given, routes }: Pick<Config, 'bodyMemoryBytes' | 'routes'>,
  memoryLimitBytes: number | undefined,
): number {
  if (given !== undefined) return given
  const longest = longestBodyBytes(routes)
  const share = memoryLimitBytes === undefined ? UNLIMITED_BYTES : Math.floor(memoryLimitBytes * SHARE)
  return Math.max(share, Math.ceil(longest / REQUESTS_SHARE))
}

/** That some route protects, or observes. */
export function longestBodyBytes(routes: Config['routes']): number {
  return Math.max(0, ...routes.flatMap(policiesOf).map(({ bodyLimitBytes }) => bodyLimitBytes))
}
