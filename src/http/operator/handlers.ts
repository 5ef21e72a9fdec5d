/**
 * What each call of the operator API does, from a validated input to an answer.
 *
 * Owns the answers and their sentences; the core decides (`core/operator/decide.ts`).
 */

import {
  type AuditLog,
  type AuditStream,
  NEWEST,
  pageOf,
  placeOf,
} from '../../core/coordination/audit-log.ts'
import type { Events } from '../../core/events.ts'
import { type DeadLetterRequest, decideDeadLetter } from '../../core/operator/dead-letters.ts'
import { type Decided, type DecisionPorts, type DecisionRequest, decide } from '../../core/operator/decide.ts'
import type { DecisionKind } from '../../core/operator/decision-rules.ts'
import type { OperatorToken } from '../../core/operator/operator-tokens.ts'
import type { RecentDecisions } from '../../core/operator/recent-decisions.ts'
import type { RecordView } from '../../core/operator/record-view.ts'
import type { StoredOutcome } from '../../core/record/stored-outcome.ts'
import { storedHeadersOf } from '../../core/routes/settlement.ts'
import { type Problem, RETRY_SOON_MS } from '../message/problems.ts'
import { json, type OperatorAnswer, problem, refusal, unavailable } from './access.ts'
import type { Topic } from './event-streams.ts'
import type { EntriesInput, FindInput } from './find-schemas.ts'
import { type FindingPorts, find, type LocatingOptions, list } from './finding.ts'
import { type OverviewFacts, type OverviewOptions, overviewOf } from './overview.ts'
import {
  type CompleteInput,
  type DeadLetterInput,
  type DecideInput,
  type DecisionsInput,
  type ListInput,
  OPERATOR_LIMITS,
} from './schemas.ts'
import { createShowing, type ShowingPorts } from './showing.ts'
import { defined, entryOf } from './shown.ts'

export type OperatorOptions = LocatingOptions & OverviewOptions & { readonly storedBytesMax: number }

export type OperatorPorts = DecisionPorts &
  ShowingPorts &
  FindingPorts & {
    readonly events: Events
    readonly overview: () => OverviewFacts
  }

const OVERVIEW_EVERY_MS = 1_000

export type OperatorHandlers = ReturnType<typeof createOperatorHandlers>

export function createOperatorHandlers(options: OperatorOptions, ports: OperatorPorts) {
  const { auditLog, clock } = ports
  const { shown, watched } = createShowing(options.instance, ports)
  const overview = () => overviewOf(ports.overview(), options, clock.wallMs())

  const decided = async (
    decision: DecisionKind,
    recordKey: string,
    input: DecideInput,
    by: OperatorToken,
    outcome?: StoredOutcome,
  ): Promise<OperatorAnswer> => {
    const { reason, dry_run: dryRun = false, even_though: evenThough, fencing_token: expectedToken } = input
    const request: DecisionRequest = {
      decision,
      recordKey,
      by: by.name,
      reason,
      dryRun,
      ...(evenThough === undefined ? {} : { evenThough }),
      ...(expectedToken === undefined ? {} : { expectedToken }),
      ...(outcome === undefined ? {} : { outcome }),
    }
    const result = await decide(request, ports)
    if (!dryRun)
      ports.events.publish({
        kind: 'operator_decided',
        recordKey,
        decision,
        by: by.name,
        result: result.kind,
      })
    return answerOf(result, dryRun, (view) => shown(view, by.role))
  }

  return {
    find: (input: FindInput) => find(input, options, ports),
    list: (input: ListInput) => list(input, ports),
    show: async (recordKey: string, by: OperatorToken): Promise<OperatorAnswer> =>
      json(await shown(await ports.inspect(recordKey), by.role)),
    watchedRecord: watched,
    decide: (
      decision: Exclude<DecisionKind, 'complete'>,
      key: string,
      input: DecideInput,
      by: OperatorToken,
    ) => decided(decision, key, input, by),
    complete: async (key: string, input: CompleteInput, by: OperatorToken): Promise<OperatorAnswer> => {
      const given = outcomeGiven(input, clock.wallMs(), options.storedBytesMax)
      return 'code' in given ? refusal(given) : decided('complete', key, input, by, given)
    },
    deadLetters: async (query: EntriesInput) => entries('dead-letters', query, auditLog),
    audit: async (query: EntriesInput) => entries('audit', query, auditLog),
    me: ({ name, role }: OperatorToken): OperatorAnswer => json({ name, role, instance: options.instance }),
    overview,
    watchedOverview: (): Topic => ({
      everyMs: OVERVIEW_EVERY_MS,
      look: async () => ({ event: overview }),
    }),
    letter: async (
      act: DeadLetterRequest['act'],
      id: string,
      { reason, dry_run: dryRun = false, completed }: DeadLetterInput,
      by: OperatorToken,
    ) =>
      deadLetterAnswer(
        await decideDeadLetter(
          { act, id, reason, dryRun, completed: completed === true, by: by.name },
          ports,
        ),
      ),
    recent: async (query: DecisionsInput): Promise<OperatorAnswer> => {
      const { sampled, decisions } = ports.recent.newest(OPERATOR_LIMITS.decisionsMax, {
        tenant: query.tenant,
        keyHash: query.key_hash,
        decision: query.decision,
      })
      return json({ sampled, decisions: decisions.map(recentOf) })
    },
  }
}

/** A page of what the nodes keep, from the newest on; with one entry more it is known whether there are older ones. */
async function entries(
  stream: AuditStream,
  query: EntriesInput,
  auditLog: AuditLog,
): Promise<OperatorAnswer> {
  const limit = Math.min(Number(query.limit ?? OPERATOR_LIMITS.listMax), OPERATOR_LIMITS.deadLettersMax)
  const before = query.cursor === undefined ? NEWEST : placeOf(query.cursor)
  const read = await auditLog.read(stream, limit + 1, before)
  if (read.kind === 'entries') {
    const page = pageOf(read.entries, limit)
    return json({ ...page, entries: page.entries.map(entryOf) })
  }
  return unavailable(`${read.answered} nodes answered and ${read.required} are required.`)
}

async function answerOf(
  result: Decided,
  dryRun: boolean,
  shown: (view: RecordView) => Promise<unknown>,
): Promise<OperatorAnswer> {
  switch (result.kind) {
    case 'would':
      return json({ decided: false, effects: result.ruling.effects, before: await shown(result.view) })
    case 'must_say': {
      const { breaks, ruling, view } = result
      if (dryRun)
        return json({ decided: false, effects: ruling.effects, requires: breaks, before: await shown(view) })
      const why =
        breaks === 'live' ? 'A live lease holds it.' : 'Its outcome is recorded, and clients may know it.'
      return problem(
        'promise-at-stake',
        `${why} Nothing was decided. ${ruling.effects.join(' ')} If that is what you want, say "even_though": "${breaks}".`,
        { requires: breaks },
      )
    }
    case 'done': {
      const { ruling, verdict, audited, before, after } = result
      const [was, is] = [await shown(before), await shown(after)]
      const of = verdict === undefined ? {} : { verdict }
      return json({ decided: true, effects: ruling.effects, ...of, audited, before: was, after: is })
    }
    case 'refused':
      return problem('decision-refused', `${result.because} Nothing was decided.`, {
        state: result.view.state,
      })
    case 'moved_on':
      return problem(
        'record-moved-on',
        `The record has moved on: ${result.because}. Look at it again before you decide.`,
        { state: result.view.state },
      )
    case 'busy':
      return refusal({
        code: 'decision-under-way',
        detail:
          'Another operator, or another attempt, came to this record at this moment. Nothing was decided. Look at the record again.',
        retryAfterMs: RETRY_SOON_MS,
      })
    case 'cannot_ask':
      return problem(
        'decision-refused',
        'The application can not be asked: FENCEPOST_SETTLE_PATH is not set, or the proxy is off. Nothing was decided.',
      )
    case 'unavailable':
      return unavailable(result.because)
  }
}

type DeadLetterDecided = Awaited<ReturnType<typeof decideDeadLetter>>

function deadLetterAnswer(result: DeadLetterDecided): OperatorAnswer {
  switch (result.kind) {
    case 'unknown':
      return problem(
        'dead-letter-unknown',
        'No dead letter has this id: it was decided, or its id is misspelt.',
      )
    case 'unavailable':
      return unavailable(result.because)
    case 'would':
      return json({ decided: false, dropped: false, effects: result.effects })
    case 'done':
      return json({ decided: true, dropped: true })
    case 'moved_on':
      return json({ decided: false, dropped: true, because: result.because })
  }
}

function recentOf({
  atWallMs,
  recordKey,
  event,
}: ReturnType<RecentDecisions['newest']>['decisions'][number]) {
  const { decision, detail, entrypoint, route, status, tenant, lockId, attempt, instance, keyHash } = event
  return defined({
    at: new Date(atWallMs).toISOString(),
    decision,
    detail,
    entrypoint,
    status,
    route,
    tenant,
    key_hash: keyHash,
    record: recordKey,
    lock_id: lockId,
    attempt,
    instance,
  })
}

const EXECUTED_STATUS = 200

/** The outcome that an operator records by hand, checked as strictly as it will be read. */
function outcomeGiven(
  { answer, result, not_kept: notKept }: CompleteInput,
  completedAtWallMs: number,
  storedBytesMax: number,
): StoredOutcome | Problem {
  if (notKept) return { kind: 'tombstone', status: EXECUTED_STATUS, completedAtWallMs }
  if (answer === undefined) {
    const bytes = Buffer.byteLength(JSON.stringify(result ?? null))
    return bytes > storedBytesMax
      ? tooLarge(bytes, storedBytesMax)
      : { kind: 'result', result, completedAtWallMs }
  }
  const body =
    answer.body_base64 === undefined
      ? Buffer.from(answer.body ?? '')
      : Buffer.from(answer.body_base64, 'base64')
  if (body.length > storedBytesMax) return tooLarge(body.length, storedBytesMax)
  const given = Object.entries(answer.headers ?? {})
  const headers = storedHeadersOf(given, { storedHeaders: [], omittedHeaders: [] })
  const dropped = given.filter(([name]) => !headers.some(([kept]) => kept === name)).map(([name]) => name)
  // Silently left out, the client would get another answer than the operator gave.
  if (dropped.length > 0)
    return {
      code: 'request-invalid',
      detail: `These headers are never stored with an answer: ${dropped.join(', ')}. Nothing was decided; leave them out.`,
    }
  return { kind: 'response', status: answer.status, headers, body, completedAtWallMs }
}

function tooLarge(bytes: number, max: number): Problem {
  return {
    code: 'body-too-large',
    detail: `The answer has ${bytes} bytes, at most ${max} are stored. Nothing was decided; give "not_kept" instead.`,
  }
}
