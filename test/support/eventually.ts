/**
 * Polls a condition, with a deadline and a sentence for the reader of the failure. Tests wait for another process in
 * this way; inside one process inject the clock or await the event instead.
 */
import { setTimeout as pause } from 'node:timers/promises'

export type Patience = {
  /** How long to poll, in time that this process had; then the promise rejects. Default {@link WITHIN_MS}. */
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
 * A machine may stand still, or have no processor for this process: a shared virtual one for a minute. Nothing that is waited for comes
 * on meanwhile either, so that time counts for no deadline. It shows as the lateness of a timer.
 */
const BEAT_MS = 50
let beatAtMs = performance.now()
let stoodStillMs = 0
setInterval(() => {
  stoodStillMs += stillSinceMs()
  beatAtMs = performance.now()
}, BEAT_MS).unref()

const stillSinceMs = (): number => Math.max(0, performance.now() - beatAtMs - 2 * BEAT_MS)

/** The time that this process had, for what it waits for. */
const ownMs = (): number => performance.now() - stoodStillMs - stillSinceMs()

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
  const deadlineMs = ownMs() + withinMs
  let last: { error: unknown } | { value: unknown }
  for (;;) {
    try {
      const value = await condition()
      if (value) return value as Exclude<T, false | null | undefined | 0 | ''>
      last = { value }
    } catch (error) {
      last = { error }
    }
    if (ownMs() >= deadlineMs) break
    await pause(everyMs)
  }
  const seen = 'error' in last ? `it threw: ${String(last.error)}` : `it was: ${String(last.value)}`
  throw new Error(`waited ${withinMs} ms for: ${sentence}; at last ${seen}`, {
    cause: 'error' in last ? last.error : undefined,
  })
}
