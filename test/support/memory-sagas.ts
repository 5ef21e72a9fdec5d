/** One parked saga and two messages that were given up, in memory: for tests of who may ask and what is written down. */
import type { SagaAdmin } from '../../src/core/saga-admin.ts'

export function memorySagas(): SagaAdmin & { readonly moved: string[] } {
  const moved: string[] = []
  const saga = () => ({
    sagaId: 'order-1',
    name: 'order',
    status: moved.includes('retry order-1') ? 'running' : 'parked',
    input: { card: '4111' },
    reason: null,
    attempts: 1,
    lastError: 'down',
    nextAttemptAt: null,
    traceId: null,
    steps: [{ name: 'charge', status: 'failed', attempts: 1, result: { card: '4111' }, lastError: 'down' }],
  })
  const isKnown = (id: string) => id === 'order-1'
  const done = (body: unknown) => ({ kind: 'done', body }) as const
  const unknown = { kind: 'unknown' } as const
  return {
    moved,
    list: async () => done({ sagas: [{ sagaId: 'order-1', status: 'parked' }] }),
    show: async (id) => (isKnown(id) ? done(saga()) : unknown),
    retry: async (id) => {
      if (!isKnown(id)) return unknown
      if (moved.includes('retry order-1')) return { kind: 'refused', reason: 'it is not parked' }
      moved.push(`retry ${id}`)
      return done(saga())
    },
    compensate: async (id, reason) => {
      moved.push(`compensate ${id}: ${reason}`)
      return done(saga())
    },
    deadLetters: async () => done({ dead_letters: [{ id: 1, payload: { card: '4111' }, errorCode: 'x' }] }),
    replay: async (ids) => {
      moved.push(`replay ${ids.join(' ')}`)
      return done({ replayed: ids.length })
    },
    discard: async (ids) => {
      moved.push(`discard ${ids.join(' ')}`)
      return done({ discarded: ids.length })
    },
    lag: async () => done({}),
  }
}
