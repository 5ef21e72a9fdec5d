/**
 * Carries out one decision of an operator about a saga, or about messages that were given up.
 *
 * Owns that who decides and why is in the audit log before anything changes, and its result after it, as for a record.
 * What a saga may do is decided by the kit, behind the port `SagaAdmin`.
 */

import type { Clock } from '../clock.ts'
import type { AuditLog } from '../coordination/audit-log.ts'
import type { SagaAdmin, SagaAdminResult } from '../saga-admin.ts'
import { operatorNote } from './operator-note.ts'

export type SagaAct =
  | { readonly act: 'retry-saga' | 'compensate-saga'; readonly sagaId: string }
  | { readonly act: 'replay-messages' | 'discard-messages'; readonly ids: readonly number[] }

export type SagaRequest = SagaAct & {
  /** Name of the person or tool. */
  readonly by: string
  readonly reason: string
  readonly dryRun: boolean
}

export type SagaDecided =
  | { readonly kind: 'would'; readonly effects: readonly string[] }
  /** `audited` false: its result could not be written down; that it was begun is. */
  | { readonly kind: 'answered'; readonly result: SagaAdminResult; readonly audited: boolean }
  | { readonly kind: 'unwritten' }

export type SagaPorts = { readonly sagas: SagaAdmin; readonly auditLog: AuditLog; readonly clock: Clock }

const EFFECTS: Readonly<Record<SagaAct['act'], readonly string[]>> = {
  'retry-saga': [
    'The saga goes on where it stood: a refused step is called again, and messages of its steps that were given up come again, now.',
  ],
  'compensate-saga': [
    'The saga is turned back: each step that was done is compensated, the last one first.',
    'It does not go forward again.',
  ],
  'replay-messages': [
    'The messages are sent on their way again, and what waits behind them follows, in its order.',
  ],
  'discard-messages': ['The messages are given up for good. What waits behind them goes on without them.'],
}

export async function decideSaga(request: SagaRequest, ports: SagaPorts): Promise<SagaDecided> {
  if (request.dryRun) return { kind: 'would', effects: EFFECTS[request.act] }
  if (!(await note(request, 'begun', ports))) return { kind: 'unwritten' }
  const result = await carriedOut(request, ports.sagas)
  return { kind: 'answered', result, audited: await note(request, wordOf(result), ports) }
}

function carriedOut(request: SagaRequest, sagas: SagaAdmin): Promise<SagaAdminResult> {
  switch (request.act) {
    case 'retry-saga':
      return sagas.retry(request.sagaId)
    case 'compensate-saga':
      return sagas.compensate(request.sagaId, request.reason)
    case 'replay-messages':
      return sagas.replay(request.ids)
    case 'discard-messages':
      return sagas.discard(request.ids)
  }
}

function wordOf(result: SagaAdminResult): string {
  return result.kind === 'refused' ? `refused: ${result.reason}` : result.kind
}

function note(request: SagaRequest, step: string, { auditLog, clock }: SagaPorts): Promise<boolean> {
  const { act, by, reason } = request
  const about: { readonly saga?: string; readonly messages?: string } =
    'sagaId' in request ? { saga: request.sagaId } : { messages: request.ids.join(' ') }
  const subject = about.saga ?? about.messages?.slice(0, 64) ?? ''
  const fields = { act, ...about, by, reason, step }
  return auditLog.append('audit', operatorNote({ subject, recordKey: '', atWallMs: clock.wallMs(), fields }))
}
