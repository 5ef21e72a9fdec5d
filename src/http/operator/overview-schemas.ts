/** What the overview and the audit log answer and take, beside `schemas.ts`, which has records. */

import type { Static } from 'typebox'
import * as Type from 'typebox'
import { Closed } from '../message/closed-schema.ts'
import { Entry } from './schemas.ts'

const Count = Type.Integer({ minimum: 0 })
const Millis = Type.Number({ minimum: 0 })

export const Me = Closed({
  name: Type.String(),
  role: Type.Union([Type.Literal('view'), Type.Literal('operate')]),
  instance: Type.String({ description: 'The sidecar that answers.' }),
})

const Quantiles = {
  count: Type.Integer({ description: 'In the window; without any there are no quantiles.' }),
  p50_ms: Type.Optional(Millis),
  p95_ms: Type.Optional(Millis),
}

const Node = Closed({
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
    Closed({
      offset_ms: Type.Number({ description: 'How far it is ahead of this sidecar.' }),
      uncertainty_ms: Millis,
      skewed: Type.Boolean({ description: 'Further off than tolerated.' }),
    }),
  ),
})

const Quorum = Closed({
  group: Type.Optional(Type.String()),
  nodes: Count,
  voting: Count,
  required: Type.Integer({ description: 'A majority.' }),
  margin: Type.Integer({ description: 'Votes that may be lost; below 0 the quorum is lost.' }),
})

const PerSecond = Closed(
  {
    created: Type.Array(Count),
    replayed: Type.Array(Count),
    refused: Type.Array(Count),
    waiting: Type.Array(Count),
    unprotected: Type.Array(Count),
  },
  { description: 'The last `seconds`, oldest first.' },
)

export const Overview = Closed({
  at: Type.String({ format: 'date-time' }),
  instance: Type.String({ description: 'The sidecar that answers; requests are those of it alone.' }),
  ready: Type.Boolean(),
  reasons: Type.Array(Type.String()),
  quorums: Type.Array(Quorum),
  nodes: Type.Array(Node),
  requests: Closed({ in_flight: Count, seconds: Count, per_second: PerSecond, ...Quantiles }),
  claims: Closed(Quantiles),
  wrong: Type.Array(Closed({ what: Type.String(), runbook: Type.String() }), {
    description: 'What is wrong now, each with the runbook about it.',
  }),
  near_misses: Type.Array(Type.String(), {
    description:
      'Requests that this sidecar executed within a minute of an equal one but for some headers or cookies: which, how many pairs, and what to do.',
  }),
})

export const SlowCommands = Closed({
  commands: Type.Array(
    Closed({
      at: Type.String({
        format: 'date-time',
        description: 'By the clock of the node, in whole seconds.',
      }),
      node: Type.String(),
      command: Type.String({
        description: 'Its name alone; `other` where that is no name of a command.',
      }),
      duration_ms: Millis,
    }),
    { description: 'Newest first, at most ten of each node.' },
  ),
  nodes: Type.Array(
    Closed({
      node: Type.String(),
      known: Type.Boolean({ description: 'False where it did not answer, or its user may not ask.' }),
      entries: Type.Optional(Count),
    }),
  ),
})

export const Entries = Closed({
  entries: Type.Array(Entry),
  cursor: Type.Optional(Type.String({ description: 'There are older entries: send it to get them.' })),
})

export type Me = Static<typeof Me>
export type Overview = Static<typeof Overview>
export type SlowCommands = Static<typeof SlowCommands>
export type Entries = Static<typeof Entries>
