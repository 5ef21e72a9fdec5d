/**
 * What callers of the reservation API send and receive: THE source of its validation, its types and its OpenAPI document.
 *
 * Owns the limits, each with its number. Unknown members are refused: to ignore a misspelt option would break a promise
 * silently.
 */

import type { Static, TSchema } from 'typebox'
import * as Type from 'typebox'
import { Closed } from '../message/closed-schema.ts'
import { DescribedRequest, VALUE_BYTES_MAX } from '../request/described-request.ts'

export const LIMITS = {
  /** Each is a record on every node, claimed one after the other. */
  valuesMax: 32,
  /** In UTF-8. A value is a name; for longer content use a hash. */
  valueBytesMax: VALUE_BYTES_MAX,
  entitiesMax: 8,
  sessionIdCharsMax: 256,
  /** Names of a scope: `core/request/identity.ts`. */
  scopeCharsMax: 128,
  /** `core/reservations/reservation-id.ts`. */
  idCharsMax: 4_096,
  durationCharsMax: 16,
} as const

const Duration = (description: string, example: string) =>
  Type.String({
    pattern: '^(0|[1-9][0-9]*)(ms|s|m|h|d)$',
    maxLength: LIMITS.durationCharsMax,
    description,
    examples: [example],
  })

const SessionId = Type.String({
  minLength: 1,
  maxLength: LIMITS.sessionIdCharsMax,
  description:
    'One try of one caller: where the answer was lost, the same session asks again and gets the same reservation. Make a new one, such as a UUID, for each try at a piece of work. Two callers with one session both hold what it holds, and a worker that starts anew under its old session is not told that its attempt is a further one: so it is neither the name of a worker nor the id of a message that may be delivered again.',
  examples: ['7c6e2a0b-4f2f-4a0e-9a43-3f1f1f0d8a11'],
})

const Name = (what: string, example: string) =>
  Type.String({
    minLength: 1,
    maxLength: LIMITS.valueBytesMax,
    description: `${what} At most ${LIMITS.valueBytesMax} bytes of UTF-8.`,
    examples: [example],
  })

const ScopeName = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: LIMITS.scopeCharsMax, description }))

const Scoped = {
  tenant: ScopeName('Whose values these are; where not given, the tenant of the configuration.'),
  api_version: ScopeName('Where not given, the version of the configuration.'),
}

/** `int64`: generators of Java, Kotlin and Rust take an integer of no format for one of 32 bits. */
const Token = Type.Integer({
  format: 'int64',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'The fencing token: larger than that of every earlier holder; fits a BIGINT.',
  examples: [1_786_406_400_123_904],
})

const Instant = Type.String({
  format: 'date-time',
  description: 'On the clock of the sidecar; nobody else can hold the reservation before.',
  examples: ['2026-11-20T12:00:29.698Z'],
})

const Attempt = Type.Integer({
  minimum: 1,
  description: 'Above 1: an earlier holder’s lease ended and nobody knows what became of its work.',
})

export const ReserveBody = Closed(
  {
    session_id: SessionId,
    reserved_value: Type.Optional(Name('The intent.', 'payment:order-4711')),
    reserved_values: Type.Optional(
      Type.Array(Name('One of the intents.', 'payment:order-4711'), {
        minItems: 1,
        maxItems: LIMITS.valuesMax,
        description: 'Several at once: all or none, each counted once, under one token.',
      }),
    ),
    request: Type.Optional(DescribedRequest),
    ...Scoped,
    entities: Type.Optional(
      Type.Array(Name('What nobody else may work on meanwhile.', 'account-42'), {
        maxItems: LIMITS.entitiesMax,
        description:
          'Locked together with the intents, and free again when the reservation ends. Routes of the proxy lock the same ones.',
      }),
    ),
    takeover: Type.Optional(
      Type.Union([Type.Literal('reexecute'), Type.Literal('indeterminate')], {
        description:
          'What to do where an earlier attempt ended without an outcome: get it as a further attempt (the default, unless the route of a described request says otherwise), or 409 until somebody has decided.',
      }),
    ),
    lease: Type.Optional(
      Duration('How long it is held without being extended; at most the configured longest lease.', '30s'),
    ),
    retention: Type.Optional(
      Duration('How long its outcome answers duplicates; at most the configured retention.', '24h'),
    ),
    wait: Type.Optional(Duration('How long to wait while somebody else holds it.', '2s')),
    heartbeat: Type.Optional(
      Type.Boolean({
        description:
          'Answer with a stream of lines and keep the reservation for as long as this connection stands.',
      }),
    ),
  },
  {
    oneOf: [{ required: ['reserved_value'] }, { required: ['reserved_values'] }, { required: ['request'] }],
    examples: [
      {
        session_id: '7c6e2a0b-4f2f-4a0e-9a43-3f1f1f0d8a11',
        reserved_value: 'payment:order-4711',
        lease: '30s',
      },
      {
        session_id: 'd0a6f5f4-92a3-4b58-8e5d-1c0f6f0a2b47',
        reserved_values: ['seat:12A', 'seat:12B'],
        wait: '2s',
      },
    ],
  },
)

export const Reserved = Closed(
  {
    reservation_id: Type.String({ description: 'Any sidecar of the cluster serves it.' }),
    session_id: Type.String(),
    status: Type.Literal('SUCCESS'),
    fencing_token: Token,
    expiration_time: Instant,
    expires_in_ms: Type.Integer({ minimum: 0 }),
    lease_ms: Type.Integer({ minimum: 1 }),
    attempt: Attempt,
  },
  {
    examples: [
      {
        reservation_id: 'r1_AAABAAB1MAAABSZcAA…',
        session_id: '7c6e2a0b-4f2f-4a0e-9a43-3f1f1f0d8a11',
        status: 'SUCCESS',
        fencing_token: 1_786_406_400_123_904,
        expiration_time: '2026-11-20T12:00:29.698Z',
        expires_in_ms: 29_698,
        lease_ms: 30_000,
        attempt: 1,
      },
    ],
  },
)

/** One line of the stream of `heartbeat: true`. */
export const HeartbeatLine = Type.Union([
  Closed({ event: Type.Literal('reserved'), reservation: Reserved }),
  Closed({ event: Type.Literal('renewed'), expiration_time: Instant, expires_in_ms: Type.Integer() }),
  Closed({ event: Type.Literal('lease-lost'), detail: Type.String() }),
  Closed({
    event: Type.Literal('ended'),
    reason: Type.Union([Type.Literal('settled'), Type.Literal('total-hold'), Type.Literal('draining')]),
  }),
])

const TokenOnly = { fencing_token: Token }

export const ExtendBody = Closed(
  { ...TokenOnly, lease: Type.Optional(Duration('From now on; where not given, as before.', '30s')) },
  { examples: [{ fencing_token: 1_786_406_400_123_904, lease: '30s' }] },
)

export const CompleteBody = Closed(
  {
    ...TokenOnly,
    result: Type.Optional(Type.Unknown({ description: 'Any JSON value; duplicates are told it.' })),
  },
  { examples: [{ fencing_token: 1_786_406_400_123_904, result: { payment_id: 'p-1' } }] },
)

export const ReleaseBody = Closed(TokenOnly, { examples: [{ fencing_token: 1_786_406_400_123_904 }] })

export const Extended = Closed({
  reservation_id: Type.String({ description: 'Carries the new lease; the one before stays valid.' }),
  status: Type.Literal('SUCCESS'),
  fencing_token: Token,
  expiration_time: Instant,
  expires_in_ms: Type.Integer({ minimum: 0 }),
})

export const Ended = Closed({
  reservation_id: Type.String(),
  status: Type.Union([Type.Literal('COMPLETED'), Type.Literal('RELEASED')]),
})

export const ValueQuery = Closed({
  value: Name('The intent.', 'payment:order-4711'),
  ...Scoped,
})

/** What the nodes record for one intent. */
export const IntentStatus = Closed({
  state: Type.Union([
    Type.Literal('FREE', { description: 'Nobody has it, or it was released.' }),
    Type.Literal('HELD'),
    Type.Literal('EXPIRED', { description: 'A lease ended without an outcome.' }),
    Type.Literal('COMPLETED'),
  ]),
  fencing_token: Type.Optional(Token),
  attempt: Type.Optional(Attempt),
  remaining_lease_ms: Type.Optional(Type.Integer({ minimum: 0 })),
  completed_at: Type.Optional(Type.String({ format: 'date-time' })),
  result: Type.Optional(Type.Unknown()),
})

export const ReservationStatus = Closed({
  reservation_id: Type.String(),
  state: Type.Union([
    Type.Literal('HELD'),
    Type.Literal('EXPIRED', { description: 'The lease is over, and nobody else has come yet.' }),
    Type.Literal('LOST', { description: 'Released, or somebody else came after.' }),
    Type.Literal('COMPLETED'),
  ]),
  fencing_token: Token,
  attempt: Attempt,
  intents: Type.Array(IntentStatus),
})

export const FingerprintBody = Closed({ request: DescribedRequest, ...Scoped })

export const Fingerprinted = Closed({
  route: Type.Union([Type.String(), Type.Null()]),
  scheme: Type.String(),
  hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  components: Type.Array(Type.Unknown()),
  body: Type.Unknown(),
  identified_by: Type.Union([
    Type.Literal('key', { description: 'The key says which request it is; only a few headers count.' }),
    Type.Literal('content', { description: 'Every header counts that is not ignored.' }),
  ]),
  ignored_headers: Type.Array(Type.String(), {
    description:
      'Headers of the request that do not count there: with them alone another request is this one. The component `headers` has those that do.',
  }),
})

export type ReserveInput = Static<typeof ReserveBody>
export type ExtendInput = Static<typeof ExtendBody>
export type CompleteInput = Static<typeof CompleteBody>
export type ReleaseInput = Static<typeof ReleaseBody>
export type ValueQueryInput = Static<typeof ValueQuery>
export type FingerprintInput = Static<typeof FingerprintBody>
export type ReservedOutput = Static<typeof Reserved>
export type ExtendedOutput = Static<typeof Extended>
export type IntentStatusOutput = Static<typeof IntentStatus>
export type ReservationStatusOutput = Static<typeof ReservationStatus>
export type HeartbeatLineOutput = Static<typeof HeartbeatLine>
export type Schema = TSchema
