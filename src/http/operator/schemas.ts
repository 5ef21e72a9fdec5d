/**
 * What operators send and receive: THE source of validation, of types, those of the page, too, and of the OpenAPI document of the
 * operator API.
 *
 * Owns the limits, each with its number. Unknown members are refused: a misspelt one could decide otherwise than meant.
 */

import type { Static } from 'typebox'
import * as Type from 'typebox'
import { Closed } from '../message/closed-schema.ts'

export const OPERATOR_LIMITS = {
  reasonCharsMax: 500,
  /** Records of one page of a list; a page that searched its share of keys may have fewer. */
  listMax: 200,
  decisionsMax: 200,
  deadLettersMax: 1_000,
  /** Newest entries of each stream that are searched for one record. */
  historyMax: 2_000,
  keyCharsMax: 2_048,
  headersMax: 50,
} as const

/** A place in a walk over the keys of the nodes; only the sidecar that gave it reads it. */
export const CURSOR = '^([0-9]{1,3}\\.){3}[01]\\.[0-9]{1,20}(\\.[A-Za-z0-9_-]{1,2800})?$'

/** `int64`: generators of Java, Kotlin and Rust take an integer of no format for one of 32 bits, which are 24 days in milliseconds. */
const Token = Type.Integer({ format: 'int64', minimum: 0, description: 'A fencing token.' })
const Millis = Type.Integer({ format: 'int64', minimum: 0 })
const State = Type.Enum(['absent', 'released', 'live', 'expired', 'completed', 'damaged', 'unknown'])

const Summary = {
  record: Type.String({ description: 'The key of the record: names it in the other calls.' }),
  key_hash: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'Log lines show the first 16 digits.' }),
  sort: Type.Union([Type.Literal('work'), Type.Literal('entity'), Type.Literal('content')]),
  tenant: Type.Optional(Type.String()),
  state: State,
  fencing_token: Type.Optional(Token),
  attempt: Type.Optional(Type.Integer()),
  lease_remaining_ms: Type.Optional(Millis),
  claimed_for_ms: Type.Optional(Millis),
  claimed_at: Type.Optional(
    Type.String({ format: 'date-time', description: 'By it records of several pages are put in order.' }),
  ),
}

export const Listed = Closed(Summary)

export const Found = Closed({
  records: Type.Array(Listed),
  cursor: Type.Optional(
    Type.String({ description: 'The search is not at its end: send it with the same body.' }),
  ),
  incomplete: Type.Optional(
    Type.Literal(true, {
      description: 'At its end: too few nodes could be read, so there may be records that are not listed.',
    }),
  ),
})

export const ListQuery = Closed({
  state: Type.Union([Type.Literal('live'), Type.Literal('expired')], {
    description:
      'Of each record as one node shows it: `live` claims, or those that ended without an outcome. One on which the nodes give no verdict comes as `unknown`.',
  }),
  cursor: Type.Optional(Type.String({ pattern: CURSOR })),
})

const Ruling = Closed({
  possible: Type.Boolean(),
  requires: Type.Optional(
    Type.Union([Type.Literal('live'), Type.Literal('completed'), Type.Literal('damaged')], {
      description: 'The promise that it breaks: refused unless `even_though` says so.',
    }),
  ),
  effects: Type.Optional(Type.Array(Type.String())),
  because: Type.Optional(Type.String()),
})

const NodeRow = Closed({
  node: Type.String(),
  state: Type.String({ description: 'absent, released, claimed, completed, silent or quarantined.' }),
  fencing_token: Type.Optional(Token),
  accepted_token: Type.Optional(Token),
  attempt: Type.Optional(Type.Integer()),
  lease_remaining_ms: Type.Optional(Millis),
  retention_remaining_ms: Type.Optional(Millis),
  fingerprint: Type.Optional(Type.String()),
  copied: Type.Optional(Type.Boolean({ description: 'Copied from other nodes: no vote for the outcome.' })),
  differs: Type.Boolean({ description: 'It does not show what the majority shows.' }),
  detail: Type.Optional(Type.String()),
})

const Outcome = Closed(
  {
    kind: Type.Enum(['response', 'tombstone', 'result']),
    completed_at: Type.String({ format: 'date-time' }),
    status: Type.Optional(Type.Integer()),
    headers: Type.Optional(Type.Array(Type.Array(Type.String()), { description: 'Each name and value.' })),
    body_bytes: Type.Optional(Type.Integer()),
    body_text: Type.Optional(Type.String({ description: 'Where it is text.' })),
    body_base64: Type.Optional(Type.String()),
    location: Type.Optional(Type.String()),
    result: Type.Optional(Type.Unknown()),
  },
  { description: 'The recorded outcome; its content for `operate`.' },
)

const Text = Type.Optional(Type.String())

export const Entry = Type.Object(
  {
    id: Type.String(),
    at: Type.String({ format: 'date-time' }),
    kind: Type.String(),
    record: Text,
    attempt: Text,
    by: Text,
    act: Text,
    step: Text,
    reason: Text,
  },
  { additionalProperties: Type.String(), description: 'Of the audit log; further members by its kind.' },
)

export const Shown = Closed({
  ...Summary,
  answered: Type.Integer({ description: 'Nodes whose reply counted.' }),
  required: Type.Integer({ description: 'A majority.' }),
  fingerprint: Type.Optional(Type.String()),
  retention_remaining_ms: Type.Optional(Millis),
  damage: Type.Optional(Type.String({ description: 'Why the outcome can not be read.' })),
  minority_outcome: Type.Optional(
    Type.Boolean({
      description: 'A node shows an outcome that no majority has: the next claim adopts it.',
    }),
  ),
  holder: Type.Optional(
    Closed({
      lock_id: Type.String({ description: 'In the log of the sidecar that holds it.' }),
      since: Type.String({ format: 'date-time' }),
      sidecar: Type.Optional(
        Type.String({
          description:
            'The name of the sidecar that holds it. Absent for a session of the reservation API, which any sidecar serves, and where no node knows the name: search the logs for the lock id.',
        }),
      ),
    }),
  ),
  in_application: Type.Optional(
    Closed(
      {
        lock_ids_begin_with: Type.String({ examples: ['0123456789abcdef-'] }),
        fencing_tokens_up_to: Token,
      },
      {
        description:
          'What its attempts are known by in the application. The token of the record itself may be one that the application never got: of an attempt that did not reach it, or of an operator.',
      },
    ),
  ),
  nodes: Type.Array(NodeRow),
  outcome: Type.Optional(Outcome),
  history: Type.Optional(Type.Array(Entry)),
  history_since: Type.Optional(
    Type.String({
      format: 'date-time',
      description: `Only entries from then on were searched: the newest ${OPERATOR_LIMITS.historyMax} of the audit log, and as many dead letters.`,
    }),
  ),
  decisions: Type.Record(Type.String(), Ruling),
})

const Decision = {
  reason: Type.String({
    minLength: 3,
    maxLength: OPERATOR_LIMITS.reasonCharsMax,
    description: 'Why; it stands in the audit log. No secrets.',
    examples: ['ticket 4711: the provider confirms that nothing was charged'],
  }),
  dry_run: Type.Optional(Type.Boolean({ description: 'Say what would happen, and change nothing.' })),
  even_though: Type.Optional(
    Type.Union([Type.Literal('live'), Type.Literal('completed'), Type.Literal('damaged')], {
      description: 'The promise that it breaks, said out.',
    }),
  ),
  fencing_token: Type.Optional(
    Type.Integer({
      format: 'int64',
      minimum: 0,
      description: 'The token under which you saw it: if it has another one by now, nothing is decided.',
    }),
  ),
}

export const DecideBody = Closed(Decision, { examples: [{ reason: 'ticket 4711', dry_run: true }] })

const HeaderName = "^[!#$%&'*+\\-.^_`|~0-9A-Za-z]{1,128}$"

export const CompleteBody = Closed(
  {
    ...Decision,
    answer: Type.Optional(
      Closed(
        {
          status: Type.Integer({ minimum: 200, maximum: 599 }),
          headers: Type.Optional(
            Type.Record(Type.String({ pattern: HeaderName }), Type.String({ maxLength: 8_192 }), {
              additionalProperties: false,
              maxProperties: OPERATOR_LIMITS.headersMax,
            }),
          ),
          body: Type.Optional(Type.String()),
          body_base64: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9+/]*={0,2}$' })),
        },
        {
          not: { required: ['body', 'body_base64'] },
          description:
            'The whole answer that retries of the client get. Redaction of routes is not applied to it.',
        },
      ),
    ),
    result: Type.Optional(Type.Unknown({ description: 'Of a reservation: what duplicates are told.' })),
    not_kept: Type.Optional(
      Type.Literal(true, { description: 'It was executed, and its answer is lost: duplicates get 410.' }),
    ),
  },
  {
    oneOf: [{ required: ['answer'] }, { required: ['result'] }, { required: ['not_kept'] }],
    examples: [{ reason: 'ticket 4711', answer: { status: 201, body: '{"payment":"p-1"}' } }],
  },
)

export const DeadLetterBody = Closed({
  reason: Decision.reason,
  dry_run: Decision.dry_run,
  completed: Type.Optional(
    Type.Literal(true, { description: 'With discard: it WAS executed, and duplicates get 410.' }),
  ),
})

export const Decided = Closed({
  decided: Type.Boolean({ description: 'False for a dry run.' }),
  effects: Type.Array(Type.String()),
  requires: Type.Optional(Type.String()),
  verdict: Type.Optional(
    Type.String({
      description:
        'Of `ask`: what the application answered; `completed` may have come with the answer, see `after`.',
    }),
  ),
  audited: Type.Optional(Type.Boolean({ description: 'False: only that it was begun is in the audit log.' })),
  before: Shown,
  after: Type.Optional(Shown),
})

export const DecisionsQuery = Closed({
  tenant: Type.Optional(Type.String({ maxLength: 128 })),
  key_hash: Type.Optional(Type.String({ pattern: '^[0-9a-f]{16,64}$' })),
  decision: Type.Optional(Type.String({ pattern: '^[a-z_]{1,64}$' })),
})

export const DeadLetterDecided = Closed({
  decided: Type.Boolean({ description: 'False for a dry run, and where the record had moved on.' }),
  dropped: Type.Boolean({ description: 'The entry is gone.' }),
  effects: Type.Optional(Type.Array(Type.String())),
  because: Type.Optional(Type.String()),
})

export const RecentDecisions = Closed({
  sampled: Type.Boolean({ description: 'Only a part of the decisions is kept while there are many.' }),
  decisions: Type.Array(
    Type.Object({
      at: Type.String({ format: 'date-time' }),
      decision: Type.String(),
      status: Type.Optional(Type.Integer()),
      route: Text,
      tenant: Text,
      record: Text,
      lock_id: Text,
      instance: Text,
    }),
  ),
})

export type Listed = Static<typeof Listed>
export type Found = Static<typeof Found>
export type Entry = Static<typeof Entry>
export type Shown = Static<typeof Shown>
export type Decided = Static<typeof Decided>
export type DeadLetterDecided = Static<typeof DeadLetterDecided>
export type RecentDecisions = Static<typeof RecentDecisions>

export type DecideInput = Static<typeof DecideBody>
export type CompleteInput = Static<typeof CompleteBody>
export type DeadLetterInput = Static<typeof DeadLetterBody>
export type ListInput = Static<typeof ListQuery>
export type DecisionsInput = Static<typeof DecisionsQuery>
