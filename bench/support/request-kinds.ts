/** The three ways of a request through the sidecar, as benchmarks ask for them. */
import type { Job } from './load.ts'

/** Of a key's count: none comes again. */
export const UNIQUE = Number.MAX_SAFE_INTEGER

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

export function expectedStatus({ method }: RequestKind): string {
  return method === 'GET' ? '200' : '201'
}
