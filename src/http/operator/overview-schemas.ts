/** What the overview, the audit log and the calls about sagas answer and take, beside `schemas.ts`, which has records. */

import type { Static } from 'typebox'
import * as Type from 'typebox'
import { DEAD_LETTER_SOURCES, OPEN_SAGA_STATES } from '../../core/saga-admin.ts'
import { Entry, OPERATOR_LIMITS } from './schemas.ts'

const closed = { additionalProperties: false } as const
const Count = Type.Integer({ minimum: 0 })
const Millis = Type.Number({ minimum: 0 })

export const Me = Type.Object(
  {
    name: Type.String(),
    role: Type.Union([Type.Literal('view'), Type.Literal('operate')]),
    instance: Type.String({ description: 'The sidecar that answers.' }),
    sagas: Type.Boolean({ description: 'A database of sagas is configured.' }),
  },
  closed,
)

const Quantiles = {
  count: Type.Integer({ description: 'In the window; without any there are no quantiles.' }),
  p50_ms: Type.Optional(Millis),
  p95_ms: Type.Optional(Millis),
}

const Node = Type.Object(
  {
    name: Type.String(),
    address: Type.String({ description: 'Where this sidecar reaches it.' }),
    group: Type.Optional(Type.String()),
    state: Type.String({ description: 'voting, suspended, quarantined, unfit or down.' }),
    since: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'When that began, as this sidecar saw it, or else as the node says.',
      }),
    ),
    fault: Type.Optional(Type.String({ description: 'Its row in docs/operations/node-faults.md.' })),
    reason: Type.Optional(
      Type.String({ description: 'Why it has no vote; of one that votes, why it takes no writes.' }),
    ),
    remedy: Type.Optional(Type.String({ description: 'What ends that.' })),
    memory_share: Type.Optional(Type.Number({ description: 'Of its `maxmemory`.' })),
    started_at: Type.Optional(Type.String({ format: 'date-time' })),
    quarantine_remaining_ms: Type.Optional(Count),
    clock: Type.Optional(
      Type.Object(
        {
          offset_ms: Type.Number({ description: 'How far it is ahead of this sidecar.' }),
          uncertainty_ms: Millis,
          skewed: Type.Boolean({ description: 'Further off than tolerated.' }),
        },
        closed,
      ),
    ),
  },
  closed,
)

const Quorum = Type.Object(
  {
    group: Type.Optional(Type.String()),
    nodes: Count,
    voting: Count,
    required: Type.Integer({ description: 'A majority.' }),
    margin: Type.Integer({ description: 'Votes that may be lost; below 0 the quorum is lost.' }),
  },
  closed,
)

const Backlog = Type.Object(
  {
    known: Type.Boolean({ description: 'False where the database did not answer.' }),
    running: Type.Optional(Count),
    compensating: Type.Optional(Count),
    parked: Type.Optional(Count),
    dead_letters: Type.Optional(Count),
    outbox_pending: Type.Optional(Count),
    outbox_parked: Type.Optional(Count),
    oldest_pending_ms: Type.Optional(Count),
    inbox_open: Type.Optional(Count),
  },
  closed,
)

const PerSecond = Type.Object(
  {
    created: Type.Array(Count),
    replayed: Type.Array(Count),
    refused: Type.Array(Count),
    waiting: Type.Array(Count),
    unprotected: Type.Array(Count),
  },
  { ...closed, description: 'The last `seconds`, oldest first.' },
)

export const Overview = Type.Object(
  {
    at: Type.String({ format: 'date-time' }),
    instance: Type.String({ description: 'The sidecar that answers; requests are those of it alone.' }),
    ready: Type.Boolean(),
    reasons: Type.Array(Type.String()),
    quorums: Type.Array(Quorum),
    nodes: Type.Array(Node),
    requests: Type.Object({ in_flight: Count, seconds: Count, per_second: PerSecond, ...Quantiles }, closed),
    claims: Type.Object(Quantiles, closed),
    wrong: Type.Array(Type.Object({ what: Type.String(), runbook: Type.String() }, closed), {
      description: 'What is wrong now, each with the runbook about it.',
    }),
    near_misses: Type.Array(Type.String(), {
      description:
        'Requests that this sidecar executed within a minute of an equal one but for some headers or cookies: which, how many pairs, and what to do.',
    }),
    sagas: Type.Optional(Backlog),
  },
  closed,
)

export const SlowCommands = Type.Object(
  {
    commands: Type.Array(
      Type.Object(
        {
          at: Type.String({
            format: 'date-time',
            description: 'By the clock of the node, in whole seconds.',
          }),
          node: Type.String(),
          command: Type.String({
            description: 'Its name alone; `other` where that is no name of a command.',
          }),
          duration_ms: Millis,
        },
        closed,
      ),
      { description: 'Newest first, at most ten of each node.' },
    ),
    nodes: Type.Array(
      Type.Object(
        {
          node: Type.String(),
          known: Type.Boolean({ description: 'False where it did not answer, or its user may not ask.' }),
          entries: Type.Optional(Count),
        },
        closed,
      ),
    ),
  },
  closed,
)

export const Entries = Type.Object(
  {
    entries: Type.Array(Entry),
    cursor: Type.Optional(Type.String({ description: 'There are older entries: send it to get them.' })),
  },
  closed,
)

export const SagasQuery = Type.Object(
  {
    state: Type.Enum(OPEN_SAGA_STATES),
    limit: Type.Optional(Type.String({ pattern: '^[1-9][0-9]{0,2}$', description: 'At most 200.' })),
  },
  closed,
)

const TextOrNull = Type.Union([Type.String(), Type.Null()])
const LetterId = Type.Integer({ format: 'int64' })

const SagaHead = {
  sagaId: Type.String(),
  name: Type.String(),
  status: Type.String(),
  reason: TextOrNull,
  lastError: TextOrNull,
}

export const Sagas = Type.Object(
  { sagas: Type.Array(Type.Object({ ...SagaHead, updatedAt: Type.String({ format: 'date-time' }) })) },
  closed,
)

/** As the saga kit shows it; what it was given and what its steps returned is for the role `operate`. */
export const Saga = Type.Object({
  ...SagaHead,
  drivenBy: Type.Enum(['runner', 'messages']),
  attempts: Count,
  nextAttemptAt: TextOrNull,
  traceId: TextOrNull,
  input: Type.Optional(Type.Unknown()),
  steps: Type.Array(
    Type.Object({
      name: Type.String(),
      status: Type.String(),
      attempts: Count,
      lastError: TextOrNull,
      result: Type.Optional(Type.Unknown()),
    }),
  ),
  deadLetters: Type.Array(LetterId, { description: 'Messages of its steps that were given up.' }),
})

export const Messages = Type.Object(
  {
    dead_letters: Type.Array(
      Type.Object({
        id: LetterId,
        source: Type.Enum(DEAD_LETTER_SOURCES),
        consumerId: Type.String(),
        aggregateType: Type.String(),
        aggregateId: Type.String(),
        type: Type.String(),
        errorCode: Type.String(),
        errorMessage: Type.String(),
        attempts: Count,
        diedAt: Type.String({ format: 'date-time' }),
        payload: Type.Optional(Type.Unknown()),
      }),
    ),
  },
  {
    ...closed,
    description: 'Messages that were given up, oldest first; payloads are for the role `operate`.',
  },
)

const Reason = {
  reason: Type.String({
    minLength: 3,
    maxLength: OPERATOR_LIMITS.reasonCharsMax,
    description: 'Why; it stands in the audit log. No secrets.',
  }),
  dry_run: Type.Optional(Type.Boolean({ description: 'Say what would happen, and change nothing.' })),
}

export const SagaBody = Type.Object(Reason, closed)

export const MessagesBody = Type.Object(
  {
    ...Reason,
    ids: Type.Array(Type.Integer({ format: 'int64', minimum: 1 }), {
      minItems: 1,
      maxItems: OPERATOR_LIMITS.deadLettersMax,
    }),
  },
  closed,
)

export const SagaDecided = Type.Object(
  {
    decided: Type.Boolean({ description: 'False for a dry run.' }),
    effects: Type.Optional(Type.Array(Type.String())),
    audited: Type.Optional(
      Type.Boolean({ description: 'False: only that it was begun is in the audit log.' }),
    ),
    saga: Type.Optional(Saga),
    messages: Type.Optional(Type.Integer({ description: 'How many of the ids were open dead letters.' })),
  },
  closed,
)

export type Me = Static<typeof Me>
export type Overview = Static<typeof Overview>
export type SlowCommands = Static<typeof SlowCommands>
export type Entries = Static<typeof Entries>
export type Sagas = Static<typeof Sagas>
export type Saga = Static<typeof Saga>
export type Messages = Static<typeof Messages>
export type SagaDecided = Static<typeof SagaDecided>

export type SagasInput = Static<typeof SagasQuery>
export type SagaInput = Static<typeof SagaBody>
export type MessagesInput = Static<typeof MessagesBody>
