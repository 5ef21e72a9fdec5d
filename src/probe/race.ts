/**
 * The copies of a volley: all sent at the same moment, and one more where all of them were refused.
 *
 * Copies that race until their budget ends may all be refused, when a quorum is back at that moment: nobody holds the key
 * then, so one more is granted, which proves nothing. Where that one is refused, too, a request that nobody had sent was
 * treated as a duplicate.
 */

import type { Reply } from './call.ts'
import { type Copy, type Finding, finding, judge, type Result, type Volley } from './verdict.ts'

type Race<A> = {
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

export type Asked = { readonly url: string; readonly reply: Reply; readonly copy: Copy }

type Claiming = Pick<Volley, 'entrypoint'> & {
  readonly copies: number
  /** Sends one copy. */
  readonly ask: (copy: number) => Promise<Asked>
  readonly whyFailed: (failed: Asked) => string
  /** What follows the one that was granted: its completion, and what is asked after it. */
  readonly further: (
    winner: Asked,
  ) => Promise<{ readonly findings: readonly Finding[]; readonly requests: number }>
  readonly release: (granted: Asked) => Promise<unknown>
}

/** A volley of copies that claim, of which the one that is granted is completed. */
export async function claimingVolley(claiming: Claiming): Promise<Volley> {
  const { entrypoint, copies, ask, whyFailed, further, release } = claiming
  const { asked, result, detail, durationMs } = await race(copies, ask, (all) =>
    judge(all.map(({ copy }) => copy)),
  )
  const failed = asked.find(({ copy }) => copy === 'failed')
  const one = finding('one', result, detail ?? (failed && whyFailed(failed)))
  const granted = asked.filter(({ copy }) => copy === 'granted')
  const [winner] = granted
  if (result === 'ok' && winner !== undefined) {
    const { findings, requests } = await further(winner)
    return { entrypoint, findings: [one, ...findings], requests: asked.length + requests, durationMs }
  }
  // If a release fails, the lease runs out.
  await Promise.all(granted.map(release))
  return { entrypoint, findings: [one], requests: asked.length + granted.length, durationMs }
}
