/**
 * What the calls about sagas do, where a database is configured.
 *
 * Owns who sees what: everybody the state, the steps and the errors; the role `operate` also what a saga was given, what its steps
 * returned, and what is in a message.
 */

import type { Clock } from '../../core/clock.ts'
import type { AuditLog } from '../../core/coordination/audit-log.ts'
import { decideSaga, type SagaAct } from '../../core/operator/decide-saga.ts'
import type { OperatorToken } from '../../core/operator/operator-tokens.ts'
import type { SagaAdmin, SagaAdminResult } from '../../core/saga-admin.ts'
import { RETRY_SOON_MS } from '../request/refusals.ts'
import { json, type OperatorAnswer, refusal } from './answers.ts'
import type { SagaInput, SagasInput } from './overview-schemas.ts'
import { OPERATOR_LIMITS } from './schemas.ts'

export type SagaHandlersPorts = {
  /** Undefined without a configured database. */
  readonly sagas: SagaAdmin | undefined
  readonly auditLog: AuditLog
  readonly clock: Clock
}

export type SagaHandlers = ReturnType<typeof createSagaHandlers>

export function createSagaHandlers({ sagas, auditLog, clock }: SagaHandlersPorts) {
  const read = async (
    ask: (admin: SagaAdmin) => Promise<SagaAdminResult>,
    by: OperatorToken,
  ): Promise<OperatorAnswer> =>
    sagas === undefined ? NO_DATABASE : answerOf(await ask(sagas), (body) => visibleTo(by, body))

  return {
    list: ({ state, limit }: SagasInput, by: OperatorToken) =>
      read(
        (admin) => admin.list({ statuses: [state], limit: Math.min(Number(limit ?? SAGAS_MAX), SAGAS_MAX) }),
        by,
      ),
    show: (sagaId: string, by: OperatorToken) => read((admin) => admin.show(sagaId), by),
    messages: (by: OperatorToken) => read((admin) => admin.deadLetters(SAGAS_MAX), by),
    decide: async (
      act: SagaAct,
      { reason, dry_run: dryRun = false }: SagaInput,
      by: OperatorToken,
    ): Promise<OperatorAnswer> => {
      if (sagas === undefined) return NO_DATABASE
      const request = { ...act, by: by.name, reason, dryRun }
      const decided = await decideSaga(request, { sagas, auditLog, clock })
      switch (decided.kind) {
        case 'would':
          return json({ decided: false, effects: decided.effects })
        case 'unwritten':
          return refusal({
            code: 'quorum-unavailable',
            detail: 'Too few nodes took the note of who decides and why. Nothing was decided.',
            retryAfterMs: RETRY_SOON_MS,
          })
        case 'answered': {
          const { result, audited } = decided
          return answerOf(result, (body) => ({ decided: true, audited, ...ofDecided(body, by) }))
        }
      }
    },
  }
}

const SAGAS_MAX = OPERATOR_LIMITS.listMax

function ofDecided(body: unknown, by: OperatorToken) {
  const { replayed, discarded } = body as { readonly replayed?: number; readonly discarded?: number }
  const messages = replayed ?? discarded
  return messages === undefined ? { saga: visibleTo(by, body) } : { messages }
}

/** Members that hold what users sent, at any depth that an answer has them. */
const CONTENT = new Set(['input', 'result', 'payload'])

function visibleTo({ role }: OperatorToken, body: unknown): unknown {
  if (role === 'operate') return body
  return JSON.parse(JSON.stringify(body, (name, value) => (CONTENT.has(name) ? undefined : value)))
}

function answerOf(result: SagaAdminResult, shown: (body: unknown) => unknown): OperatorAnswer {
  switch (result.kind) {
    case 'done':
      return json(shown(result.body))
    case 'unknown':
      return refusal({
        code: 'saga-unknown',
        detail:
          'There is no saga with this id: it is misspelt, or it ended so long ago that it is no longer kept.',
      })
    case 'refused':
      return refusal({ code: 'saga-not-movable', detail: `The saga cannot be moved: ${result.reason}.` })
    case 'unavailable':
      return refusal({
        code: 'database-unavailable',
        detail: 'The database of the sagas did not answer; it is not known whether anything changed.',
        retryAfterMs: RETRY_SOON_MS,
      })
  }
}

const NO_DATABASE = refusal({
  code: 'call-unknown',
  detail: 'This sidecar knows of no sagas: FENCEPOST_SAGA_DATABASE_FILE is not set.',
})
