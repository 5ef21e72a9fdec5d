/** One parked saga and a message that was given up, in memory, as the kit shows them: for tests of what is answered and to whom. */
import type { DeadLetter, SagaSummary, SagaView } from '@fencepost/saga'
import type { SagaAdmin } from '../../src/core/saga-admin.ts'

const HEAD = {
  sagaId: 'order-1',
  name: 'order',
  drivenBy: 'runner',
  reason: null,
  lastError: 'down',
} as const
const AT = new Date('2026-11-20T12:00:00Z')
const LETTER: Omit<DeadLetter, 'headers' | 'properties'> = {
  id: 1,
  source: 'outbox',
  consumerId: '',
  messageId: 'm-1',
  aggregateType: 'order',
  aggregateId: '1',
  type: 'order.placed',
  destination: 'orders',
  payload: { card: '4111' },
  errorCode: 'x',
  errorMessage: 'down',
  attempts: 3,
  diedAt: AT,
  status: 'dead',
}

export function memorySagas(): SagaAdmin & { readonly moved: string[] } {
  const moved: string[] = []
  const saga = (): SagaView => ({
    ...HEAD,
    status: moved.includes('retry order-1') ? 'running' : 'parked',
    input: { card: '4111' },
    attempts: 1,
    nextAttemptAt: null,
    traceId: null,
    deadLetters: [],
    steps: [{ name: 'charge', status: 'failed', attempts: 1, result: { card: '4111' }, lastError: 'down' }],
  })
  const listed: SagaSummary = { ...HEAD, status: 'parked', createdAt: AT, updatedAt: AT }
  const isKnown = (id: string) => id === 'order-1'
  const done = (body: unknown) => ({ kind: 'done', body }) as const
  const unknown = { kind: 'unknown' } as const
  return {
    moved,
    list: async () => done({ sagas: [listed] }),
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
    deadLetters: async () => done({ dead_letters: [LETTER] }),
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
