/**
 * Waits for a condition by asking again and again, with a deadline and a sentence for the one who reads the failure.
 * It is how tests wait for another process; inside one process inject the clock or await the event instead.
 */
import { setTimeout as pause } from 'node:timers/promises'

export type Patience = {
  /** How long to go on asking; then the promise rejects. Default {@link WITHIN_MS}. */
  readonly withinMs?: number
  /** Between two questions. */
  readonly everyMs?: number
}

/**
 * Far above what anything here takes: a machine that does other things may hold a process up for seconds, and who waits for
 * what comes loses nothing by a large limit. Below the 30 s that a test has, so that the sentence is read.
 */
const WITHIN_MS = 20_000

/**
 * Asks `condition` until it returns something truthy, and returns that. Throwing counts as "not yet"; the last error
 * is the cause of the failure.
 *
 * @param sentence what is waited for, to be read after "waited 20000 ms for: "
 */
export async function eventually<T>(
  sentence: string,
  condition: () => T | Promise<T>,
  { withinMs = WITHIN_MS, everyMs = 10 }: Patience = {},
): Promise<Exclude<T, false | null | undefined | 0 | ''>> {
  const deadlineMs = performance.now() + withinMs
  let last: { error: unknown } | { value: unknown }
  for (;;) {
    try {
      const value = await condition()
      if (value) return value as Exclude<T, false | null | undefined | 0 | ''>
      last = { value }
    } catch (error) {
      last = { error }
    }
    if (performance.now() >= deadlineMs) break
    await pause(everyMs)
  }
  const seen = 'error' in last ? `it threw: ${String(last.error)}` : `it was: ${String(last.value)}`
  throw new Error(`waited ${withinMs} ms for: ${sentence}; at last ${seen}`, {
    cause: 'error' in last ? last.error : undefined,
  })
}
