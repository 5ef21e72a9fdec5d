/**
 * The copies of a volley: all sent at the same moment, and one more where all of them were refused.
 *
 * Copies that race until their budget ends may all be refused, when a quorum is back at that moment: nobody holds the key
 * then, so one more is granted, which proves nothing. Where that one is refused, too, a request that nobody had sent was
 * treated as a duplicate.
 */

import type { Copy, Result } from './verdict.ts'

export type Race<A> = {
  /** In the order in which they were sent. */
  readonly asked: readonly A[]
  readonly result: Result
  /** Where the answers of the copies do not say it. */
  readonly detail?: string
  /** Of the copies that were sent at once. */
  readonly durationMs: number
}

/** @param ask sends one copy, by its number from 0 @param judge what the answers so far prove */
export async function race<A extends { readonly copy: Copy }>(
  copies: number,
  ask: (copy: number) => Promise<A>,
  judge: (asked: readonly A[]) => Result,
): Promise<Race<A>> {
  const startedMs = performance.now()
  const first = await Promise.all(Array.from({ length: copies }, (_, copy) => ask(copy)))
  const durationMs = performance.now() - startedMs
  const result = judge(first)
  if (result !== 'false_positive') return { asked: first, result, durationMs }
  const next = await ask(copies)
  const asked = [...first, next]
  if (next.copy !== 'granted') return { asked, result: judge(asked), durationMs }
  const detail = 'no copy was granted before its budget ended, and the next one was'
  return { asked, result: 'error', detail, durationMs }
}
