/** The three ways of a request through the sidecar, as benchmarks ask for them. */
import type { Job, JobResult, Load } from './load.ts'

/** Of a key's count: none comes again. */
const UNIQUE = Number.MAX_SAFE_INTEGER
/** So many runs had keys that no run may answer for another. */
let prefixes = 0

export type RequestKind = Pick<Job, 'method' | 'path' | 'bodyBytes' | 'key'>

const post = { method: 'POST', path: '/payments', bodyBytes: 200 } as const

/** @param replayedKeys how many keys the replays are of, one after the other */
export function requestKinds(
  replayedKeys: number,
): Readonly<Record<'unique' | 'replays' | 'pass-through', RequestKind>> {
  return {
    unique: { ...post, key: { prefix: 'unique', count: UNIQUE } },
    replays: { ...post, key: { prefix: 'replayed', count: replayedKeys } },
    'pass-through': { method: 'GET', path: '/payments', bodyBytes: 0, key: { prefix: '', count: 1 } },
  }
}

/**
 * Sidecars that take turns share their nodes, and must not answer each other's unique keys.
 *
 * @throws Error where an answer is not that of a request which was executed or replayed
 */
export async function runKind(
  load: Load,
  url: string,
  kind: RequestKind,
  shape: Pick<Extract<Job['load'], { kind: 'closed' }>, 'requests' | 'concurrency'>,
): Promise<JobResult> {
  const key = kind.key.count === UNIQUE ? { ...kind.key, prefix: `unique-${prefixes++}` } : kind.key
  const done = await load.run({ url, ...kind, key, load: { kind: 'closed', ...shape } })
  if (done.statuses[kind.method === 'GET' ? '200' : '201'] !== done.requests)
    throw new Error(`unexpected answers: ${JSON.stringify(done.statuses)}`)
  return done
}
