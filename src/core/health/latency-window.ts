/**
 * Durations of the last while, as counts: what a quantile is taken from.
 *
 * Owns the size classes and the slices. It has no clock: who uses it says when a slice is over.
 */

/** The window moves on in so many steps. */
export const WINDOW_SLICES = 12

export type LatencyWindow = {
  add(durationMs: number): void
  count(): number
  quantile(quantile: number): number
  /** Of the newest slice alone. */
  readonly newest: Pick<LatencyWindow, 'count' | 'quantile'>
  clear(): void
  /** A new slice begins; the oldest is forgotten. */
  moveOn(): void
}

const BOUND_MIN_MS = 0.5
const BOUND_MAX_MS = 60_000
const BOUND_FACTOR = 1.1

/**
 * Counts per size class instead of samples: memory is bounded. A quantile is the upper bound of its class, at most a
 * tenth too high; `exact` are bounds themselves, so that comparing with them is exact.
 */
export function createLatencyWindow(exact: readonly number[]): LatencyWindow {
  const steps = Math.ceil(Math.log(BOUND_MAX_MS / BOUND_MIN_MS) / Math.log(BOUND_FACTOR))
  const regular = Array.from({ length: steps + 1 }, (_, step) => BOUND_MIN_MS * BOUND_FACTOR ** step)
  const bounds = [...new Set([...regular, ...exact])].sort((a, b) => a - b)
  const slices = Array.from({ length: WINDOW_SLICES }, () => new Uint32Array(bounds.length + 1))
  let current = 0
  let count = 0

  function quantileOf(some: readonly Uint32Array[], total: number, quantile: number): number {
    const rank = Math.ceil(quantile * total)
    let seen = 0
    for (const [at, bound] of bounds.entries()) {
      for (const slice of some) seen += slice[at] ?? 0
      if (seen >= rank) return bound
    }
    return Number.POSITIVE_INFINITY
  }
  const newest = () => slices[current] as Uint32Array
  const countIn = (slice: Uint32Array) => slice.reduce((total, one) => total + one, 0)

  return {
    add: (durationMs) => {
      const slice = newest()
      const at = classOf(bounds, durationMs)
      slice[at] = (slice[at] ?? 0) + 1
      count += 1
    },
    count: () => count,
    quantile: (quantile) => quantileOf(slices, count, quantile),
    newest: {
      count: () => countIn(newest()),
      quantile: (quantile) => quantileOf([newest()], countIn(newest()), quantile),
    },
    clear: () => {
      for (const slice of slices) slice.fill(0)
      count = 0
    },
    moveOn: () => {
      current = (current + 1) % WINDOW_SLICES
      const oldest = newest()
      count -= countIn(oldest)
      oldest.fill(0)
    },
  }
}

/** Index of the first bound that is not below `value`; one beyond the last where all are. */
function classOf(bounds: readonly number[], value: number): number {
  let low = 0
  let high = bounds.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((bounds[middle] ?? 0) >= value) high = middle
    else low = middle + 1
  }
  return low
}
