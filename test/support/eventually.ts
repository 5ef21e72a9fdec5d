/**
 * Polls a condition, with a deadline and a sentence for the reader of the failure. Tests wait for another process in
 * this way; inside one process inject the clock or await the event instead.
 */
import { setTimeout as pause } from 'node:timers/promises'

export type Patience = {
  /** How long to poll; then the promise rejects. Default {@link WITHIN_MS}. */
  readonly withinMs?: number
  /** Between two polls. */
  readonly everyMs?: number
}

/**
 * Far above the time that any wait needs: a busy machine may delay a process for seconds, and a large limit costs a
 * passing test no time. Below the 30 s of a test, so that the sentence is shown.
 */
const WITHIN_MS = 20_000

/**
 * Calls `condition` until it returns a truthy value, and returns that. An exception counts as "not yet"; the last one
 * is the cause of the failure.
 *
 * @param sentence the awaited condition, shown after "waited 20000 ms for: "
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
