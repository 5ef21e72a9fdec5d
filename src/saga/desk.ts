/**
 * The desk of an operator over the kit's tables: what `core/saga-desk.ts` asks for.
 *
 * Owns the translation of what PostgreSQL does into answers. Errors do not pass: they may quote what is secret.
 */
import type { DeskAnswer, SagaDesk } from '../core/saga-desk.ts'
import { listDeadLetters, replayDeadLetters } from './dead-letters.ts'
import type { SagaKit } from './kit.ts'
import { outboxLag } from './outbox.ts'
import { getSaga, retrySaga, turnSagaBack } from './saga-instances.ts'

export function createSagaDesk(kit: SagaKit, onError: (error: unknown) => void): SagaDesk {
  const asking = async (ask: () => Promise<DeskAnswer>): Promise<DeskAnswer> => {
    try {
      return await ask()
    } catch (error) {
      onError(error)
      return { kind: 'unavailable' }
    }
  }
  const show = async (sagaId: string): Promise<DeskAnswer> => {
    const body = await getSaga(kit, sagaId)
    return body === undefined ? { kind: 'unknown' } : { kind: 'done', body }
  }
  const moved = async (sagaId: string, happened: boolean, otherwise: string): Promise<DeskAnswer> => {
    const shown = await show(sagaId)
    return happened || shown.kind === 'unknown' ? shown : { kind: 'refused', reason: otherwise }
  }
  return {
    show: (sagaId) => asking(() => show(sagaId)),
    retry: (sagaId) => asking(async () => moved(sagaId, await retrySaga(kit, sagaId), 'it is not parked')),
    compensate: (sagaId, reason) =>
      asking(async () =>
        moved(sagaId, await turnSagaBack(kit, sagaId, reason), 'it is neither running nor parked'),
      ),
    deadLetters: (limit) =>
      asking(async () => ({ kind: 'done', body: { dead_letters: await listDeadLetters(kit, { limit }) } })),
    replay: (ids) =>
      asking(async () => ({ kind: 'done', body: { replayed: await replayDeadLetters(kit, ids) } })),
    lag: () => asking(async () => ({ kind: 'done', body: await outboxLag(kit) })),
  }
}
