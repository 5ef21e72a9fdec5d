/**
 * What the operator API answers, as the page reads it. A test compares these with the schemas of the API, which are their
 * source.
 */

export type Operator = {
  readonly name: string
  readonly role: 'view' | 'operate'
  readonly instance: string
  readonly sagas: boolean
}

export type RecordState = 'absent' | 'released' | 'live' | 'lapsed' | 'completed' | 'damaged' | 'unknown'

export type RecordSummary = {
  readonly record: string
  readonly key_hash: string
  readonly sort: 'work' | 'entity' | 'content'
  readonly tenant?: string
  readonly state: RecordState
  readonly fencing_token?: number
  readonly attempt?: number
  readonly lease_remaining_ms?: number
  readonly claimed_for_ms?: number
  readonly claimed_at?: string
}

export type Found = {
  readonly records: readonly RecordSummary[]
  readonly cursor?: string
  readonly incomplete?: true
}

export type NodeRow = {
  readonly node: string
  readonly state: string
  readonly fencing_token?: number
  readonly accepted_token?: number
  readonly attempt?: number
  readonly lease_remaining_ms?: number
  readonly retention_remaining_ms?: number
  readonly fingerprint?: string
  readonly copied?: boolean
  readonly differs: boolean
  readonly detail?: string
}

export type Ruling = {
  readonly possible: boolean
  readonly requires?: EvenThough
  readonly effects?: readonly string[]
  readonly because?: string
}

export type EvenThough = 'live' | 'completed' | 'damaged'

export type RecordShown = RecordSummary & {
  readonly answered: number
  readonly required: number
  readonly fingerprint?: string
  readonly retention_remaining_ms?: number
  readonly damage?: string
  readonly minority_outcome?: boolean
  readonly holder?: { readonly lock_id: string; readonly since: string; readonly sidecar?: string }
  readonly in_application?: {
    readonly lock_ids_begin_with: string
    readonly fencing_tokens_up_to: number
  }
  readonly nodes: readonly NodeRow[]
  readonly outcome?: Outcome
  readonly history?: readonly AuditEntry[]
  /** The audit log reaches further back than it was searched. */
  readonly history_since?: string
  readonly decisions: Readonly<Record<string, Ruling>>
}

/** Of every kind: `response`, `tombstone` or `result`. */
export type Outcome = {
  readonly kind: string
  readonly completed_at?: string
  readonly status?: number
  readonly headers?: readonly (readonly [string, string])[]
  readonly body_bytes?: number
  readonly body_text?: string
  readonly body_base64?: string
  readonly location?: string
  readonly result?: unknown
}

/** Further members are text, by the kind of the entry. */
export type AuditEntry = {
  readonly id: string
  readonly at: string
  readonly kind: string
  readonly record?: string
  readonly [field: string]: string | undefined
}

export type Entries = {
  readonly entries: readonly AuditEntry[]
  /** There are older ones. */
  readonly cursor?: string
}

export type RecentDecision = {
  readonly at: string
  readonly decision: string
  readonly status?: number
  readonly route?: string
  readonly tenant?: string
  readonly record?: string
  readonly lock_id?: string
  readonly instance?: string
}

export type RecentDecisions = { readonly sampled: boolean; readonly decisions: readonly RecentDecision[] }

export type Decided = {
  readonly decided: boolean
  readonly effects?: readonly string[]
  readonly requires?: string
  readonly verdict?: string
  readonly audited?: boolean
  readonly because?: string
  /** Of messages of the saga kit: how many it was about. */
  readonly messages?: number
  /** Of a record: as it was when the preview was made. */
  readonly before?: { readonly fencing_token?: number }
}

export type Quantiles = { readonly count: number; readonly p50_ms?: number; readonly p95_ms?: number }

export type Fate = 'created' | 'replayed' | 'refused' | 'waiting' | 'unprotected'

export type OverviewNode = {
  readonly name: string
  readonly address: string
  readonly group?: string
  readonly state: string
  readonly fault?: string
  readonly reason?: string
  readonly remedy?: string
  readonly memory_share?: number
  readonly started_at?: string
  readonly quarantine_remaining_ms?: number
  readonly clock?: { readonly offset_ms: number; readonly uncertainty_ms: number; readonly skewed: boolean }
}

export type Quorum = {
  readonly group?: string
  readonly nodes: number
  readonly voting: number
  readonly required: number
  readonly margin: number
}

export type Overview = {
  readonly at: string
  readonly instance: string
  readonly ready: boolean
  readonly reasons: readonly string[]
  readonly quorums: readonly Quorum[]
  readonly nodes: readonly OverviewNode[]
  readonly requests: Quantiles & {
    readonly in_flight: number
    readonly seconds: number
    readonly per_second: Readonly<Record<Fate, readonly number[]>>
  }
  readonly claims: Quantiles
  readonly wrong: readonly { readonly what: string; readonly runbook: string }[]
  readonly near_misses: readonly string[]
  readonly sagas?: Backlog
}

export type SlowCommands = {
  readonly commands: readonly {
    readonly at: string
    readonly node: string
    readonly command: string
    readonly duration_ms: number
  }[]
  readonly nodes: readonly { readonly node: string; readonly known: boolean; readonly entries?: number }[]
}

export type Backlog = {
  readonly known: boolean
  readonly running?: number
  readonly compensating?: number
  readonly parked?: number
  readonly dead_letters?: number
  readonly outbox_pending?: number
  readonly outbox_parked?: number
  readonly oldest_pending_ms?: number
}

export type SagaState = 'running' | 'compensating' | 'parked'

export type SagaSummary = {
  readonly sagaId: string
  readonly name: string
  readonly status: string
  readonly lastError: string | null
  readonly reason: string | null
  readonly updatedAt: string
}

export type Saga = {
  readonly sagaId: string
  readonly name: string
  readonly status: string
  readonly reason: string | null
  readonly attempts: number
  readonly lastError: string | null
  readonly nextAttemptAt: string | null
  readonly traceId: string | null
  readonly drivenBy: 'runner' | 'messages'
  /** Messages of its steps that were given up. */
  readonly deadLetters: readonly unknown[]
  readonly input?: unknown
  readonly steps: readonly {
    readonly name: string
    readonly status: string
    readonly attempts: number
    readonly lastError: string | null
    readonly result?: unknown
  }[]
}

export type Message = {
  readonly id: number
  readonly source: string
  readonly consumerId: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly type: string
  readonly errorCode: string
  readonly errorMessage: string
  readonly attempts: number
  readonly diedAt: string
  readonly payload?: unknown
}
