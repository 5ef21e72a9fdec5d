/**
 * An operator's calls on the kit's tables: `SagaAdmin`, the port of the sidecar's core, on PostgreSQL.
 *
 * Owns the translation of PostgreSQL's results into answers. Errors do not pass, because they may quote secrets.
 */
import type { SagaAdmin, SagaAdminResult } from './core.ts'
import { type DeadLetter, discardDeadLetters, listDeadLetters, replayDeadLetters } from './dead-letters.ts'
import type { SagaKit } from './kit.ts'
import { outboxLag } from './outbox.ts'
import { compensateSaga, getSaga, listSagas, retrySaga } from './saga-instances.ts'

/** They may be credentials of the sender: seen by those who have the database, and not over HTTP. */
function withoutHeaders({ headers: _, properties: __, ...letter }: DeadLetter): object {
  return letter
}

export function createSagaAdmin(kit: SagaKit, onError: (error: unknown) => void): SagaAdmin {
  const answered = async (request: () => Promise<SagaAdminResult>): Promise<SagaAdminResult> => {
    try {
      return await request()
    } catch (error) {
      onError(error)
      return { kind: 'unavailable' }
    }
  }
  const show = async (sagaId: string): Promise<SagaAdminResult> => {
    const body = await getSaga(kit, sagaId)
    return body === undefined ? { kind: 'unknown' } : { kind: 'done', body }
  }
  const moved = async (sagaId: string, happened: boolean, otherwise: string): Promise<SagaAdminResult> => {
    const shown = await show(sagaId)
    return happened || shown.kind === 'unknown' ? shown : { kind: 'refused', reason: otherwise }
  }
  return {
    list: (query) => answered(async () => ({ kind: 'done', body: { sagas: await listSagas(kit, query) } })),
    show: (sagaId) => answered(() => show(sagaId)),
    retry: (sagaId) =>
      answered(async () =>
        moved(sagaId, await retrySaga(kit, sagaId), 'it is not parked, and no message of its steps is dead'),
      ),
    compensate: (sagaId, reason) =>
      answered(async () =>
        moved(sagaId, await compensateSaga(kit, sagaId, reason), 'it is neither running nor parked'),
      ),
    deadLetters: (limit) =>
      answered(async () => ({
        kind: 'done',
        body: { dead_letters: (await listDeadLetters(kit, { limit })).map(withoutHeaders) },
      })),
    replay: (ids) =>
      answered(async () => ({ kind: 'done', body: { replayed: await replayDeadLetters(kit, ids) } })),
    discard: (ids) =>
      answered(async () => ({ kind: 'done', body: { discarded: await discardDeadLetters(kit, ids) } })),
    lag: () => answered(async () => ({ kind: 'done', body: await outboxLag(kit) })),
  }
}
