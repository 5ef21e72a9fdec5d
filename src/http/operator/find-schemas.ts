/** What an operator sends to find a record: THE source of its validation, its type and its part of the OpenAPI document. */

import type { Static } from 'typebox'
import * as Type from 'typebox'
import { CURSOR_PATTERN } from '../../core/coordination/audit-log.ts'
import { Closed } from '../message/closed-schema.ts'
import { DescribedRequest, VALUE_BYTES_MAX } from '../request/described-request.ts'
import { CURSOR, OPERATOR_LIMITS } from './schemas.ts'

const Text = (description: string, maxLength: number, example: string) =>
  Type.String({ minLength: 1, maxLength, description, examples: [example] })

const ScopeNames = {
  tenant: Type.Optional(Text('Where not given, the tenant of the configuration.', 128, 'shop')),
  api_version: Type.Optional(Text('Where not given, the version of the configuration.', 128, 'v1')),
}

const PRINCIPAL = '^(anonymous|([a-z]+:)?[0-9a-f]{64})$'

export const FindBody = Closed(
  {
    ...ScopeNames,
    reference: Type.Optional(
      Text(
        'A record key, the hash of one, a lock id, or what log lines, traces and problem documents show as key_hash, lock_id and instance.',
        OPERATOR_LIMITS.keyCharsMax,
        '0123456789abcdef',
      ),
    ),
    key: Type.Optional(
      Closed(
        {
          method: Type.String({ pattern: '^[A-Z]{1,32}$', examples: ['POST'] }),
          path: Type.String({ pattern: '^/[^?#\\s]*$', maxLength: 8_192, examples: ['/payments'] }),
          idempotency_key: Text('As the client sent it.', OPERATOR_LIMITS.keyCharsMax, 'order-4711'),
          principal: Type.Optional(
            Type.String({
              pattern: PRINCIPAL,
              description:
                'Whose request it was: `anonymous`, or the hash of it (docs/reference/identity.md). Where neither this nor `authorization` nor `client` is given: anonymous.',
            }),
          ),
          authorization: Type.Optional(
            Type.String({
              maxLength: 8_192,
              description: 'The client’s Authorization line; it is only hashed.',
            }),
          ),
          client: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: 8_192,
              description:
                'Or what names the client where the route identifies clients by a header or by one claim of their token: the value of it.',
              examples: ['customer-42'],
            }),
          ),
        },
        { description: 'What support has of a request with an idempotency key.' },
      ),
    ),
    request: Type.Optional(DescribedRequest),
    reserved_value: Type.Optional(Text('A reserved value.', VALUE_BYTES_MAX, 'payment:order-4711')),
    entity: Type.Optional(Text('A locked entity.', VALUE_BYTES_MAX, 'account-42')),
    reservation_id: Type.Optional(
      Type.String({ pattern: '^r1_[A-Za-z0-9_-]+$', maxLength: 4_096, description: 'All records of it.' }),
    ),
    cursor: Type.Optional(
      Type.String({
        pattern: CURSOR,
        description: 'Of an answer whose search is not at its end: goes on with it.',
      }),
    ),
  },
  {
    oneOf: ['reference', 'key', 'request', 'reserved_value', 'entity', 'reservation_id'].map((name) => ({
      required: [name],
    })),
    examples: [
      { key: { method: 'POST', path: '/payments', idempotency_key: 'order-4711' } },
      { reference: '0123456789abcdef' },
    ],
  },
)

export type FindInput = Static<typeof FindBody>

/** What operators send for a page of the audit log or of dead letters, from the newest on. */
export const EntriesQuery = Closed({
  limit: Type.Optional(
    Type.String({
      pattern: '^[1-9][0-9]{0,3}$',
      description: `Newest entries, at most ${OPERATOR_LIMITS.deadLettersMax}; default ${OPERATOR_LIMITS.listMax}.`,
    }),
  ),
  cursor: Type.Optional(
    Type.String({
      pattern: CURSOR_PATTERN,
      description: 'Of an answer that has older ones: goes on with them.',
    }),
  ),
})

export type EntriesInput = Static<typeof EntriesQuery>
