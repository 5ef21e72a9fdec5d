/**
 * One record as an operator sees it: what the quorum makes of it, and what each node shows, side by side.
 *
 * Owns which node differs from the verdict. It reads one set of replies and sends nothing, so looking never changes a
 * record: an outcome that only a minority holds is shown as that, and not helped to a majority.
 */

import { sha256Hex } from '../formats/framing.ts'
import type { NodeAnswer } from '../ports.ts'
import { type ClaimedRead, explainRead, type MajorityRead } from '../quorum/majority-read.ts'
import { type Fingerprint, NO_OWNER, type NodeRecord, type Owner } from '../record/record.ts'
import { decodeOutcome, type StoredOutcome } from '../record/stored-outcome.ts'
import type { Token } from '../record/token.ts'
import { majorityOf } from '../units.ts'

/** What one node replied to a read of the record. */
export type NodeReply = { readonly node: string; readonly answer: NodeAnswer }

export type RecordState =
  | 'absent'
  | 'released'
  | 'live'
  /** A claim ended without an outcome: the fate of its work is unknown. */
  | 'expired'
  | 'completed'
  /** Completed, and what is stored can't be read. */
  | 'damaged'
  /** Too few nodes replied, or those that did do not show one state on a majority. */
  | 'unknown'

export type NodeRow = {
  readonly node: string
  readonly state: NodeRecord['state'] | 'absent' | 'silent' | 'quarantined'
  /** The largest token that the node has promised. */
  readonly token?: Token
  /** The token at which it accepted the outcome. */
  readonly acceptedToken?: Token
  readonly attempt?: number
  /** 0: the lease is over on this node's clock. */
  readonly leaseRemainingMs?: number
  readonly retentionRemainingMs?: number
  readonly fingerprint?: Fingerprint
  readonly copied?: true
  /** It gives no reply that counts, or shows another thing than the verdict. Where there is no verdict, no reply is another thing. */
  readonly differs: boolean
  /** Why it gave no reply that counts, or why its outcome can't be read. */
  readonly detail?: string
}

export type RecordView = {
  readonly recordKey: string
  readonly state: RecordState
  readonly answered: number
  readonly required: number
  /** Of the claim, or of the claim that made the outcome. */
  readonly token?: Token
  /** The largest token on any node: a decision needs a larger one. */
  readonly largestToken?: Token
  readonly attempt?: number
  readonly fingerprint?: Fingerprint
  /** What the holder is known by on the nodes; absent where no holder is left. */
  readonly owner?: Owner
  readonly leaseRemainingMs?: number
  /** How long ago it was claimed, on the clock of the node that has known it longest. */
  readonly claimedForMs?: number
  readonly retentionRemainingMs?: number
  readonly outcome?: StoredOutcome
  /** Why the outcome can't be read. */
  readonly damage?: string
  /** A node shows an outcome that no majority is seen to have: the next claim adopts it. */
  readonly minorityOutcome?: true
  readonly nodes: readonly NodeRow[]
}

export function recordView(recordKey: string, replies: readonly NodeReply[]): RecordView {
  const answers = replies.map(({ answer }) => answer)
  const verdict = verdictOf(explainRead(answers, true))
  const records = answers.flatMap((answer) =>
    answer.kind === 'record' && answer.record !== undefined ? [{ ...answer, record: answer.record }] : [],
  )
  const since = records.flatMap(({ record, nodeMs }) =>
    record.state === 'claimed' ? [nodeMs - record.claimedAtNodeMs] : [],
  )
  const kept = records.flatMap(({ ttlMs }) => ttlMs ?? [])
  return {
    recordKey,
    ...verdict,
    answered: answers.filter(({ kind }) => kind === 'record').length,
    required: majorityOf(replies.length),
    ...(records.length === 0 ? {} : { largestToken: Math.max(...records.map(({ record }) => record.fence)) }),
    ...(since.length === 0 ? {} : { claimedForMs: Math.max(0, ...since) }),
    ...(kept.length === 0 ? {} : { retentionRemainingMs: Math.max(...kept) }),
    nodes: replies.map((reply) => rowOf(reply, verdict)),
  }
}

/** Without what is counted over the nodes. */
type Verdict = Omit<
  RecordView,
  'recordKey' | 'answered' | 'required' | 'largestToken' | 'claimedForMs' | 'retentionRemainingMs' | 'nodes'
>

function verdictOf(read: MajorityRead): Verdict {
  switch (read.kind) {
    case 'absent':
      return { state: 'absent' }
    case 'released':
      return { state: 'released', token: read.fence }
    case 'claimed':
      return claimOf(read)
    case 'completed': {
      const { acceptedToken, attempt, fingerprint, outcome } = read.record
      const decoded = decodeOutcome(outcome)
      const of = { attempt, fingerprint }
      return decoded.kind === 'intact'
        ? { state: 'completed', ...of, token: decoded.token ?? acceptedToken, outcome: decoded.outcome }
        : { state: 'damaged', ...of, token: acceptedToken, damage: decoded.reason }
    }
    case 'minority_outcome':
      return read.claim === undefined
        ? { state: 'unknown', minorityOutcome: true }
        : { ...claimOf(read.claim), minorityOutcome: true }
    case 'uncertain':
    case 'unavailable':
      return { state: 'unknown' }
    case 'undecided':
      throw new Error('a settled round is never undecided')
  }
}

function claimOf(claim: ClaimedRead): Verdict {
  const { fence: token, owner, remainingMs: leaseRemainingMs, attempt, fingerprint } = claim
  const state = leaseRemainingMs > 0 ? 'live' : 'expired'
  return { state, token, attempt, fingerprint, leaseRemainingMs, ...(owner === NO_OWNER ? {} : { owner }) }
}

function rowOf({ node, answer }: NodeReply, verdict: Verdict): NodeRow {
  if (answer.kind === 'quarantined')
    return { node, state: 'quarantined', differs: true, detail: 'it forgot, and does not vote yet' }
  if (answer.kind !== 'record') {
    const detail = answer.kind === 'unreachable' ? `${answer.reason}: ${answer.detail}` : answer.kind
    return { node, state: 'silent', differs: true, detail }
  }
  const { record, nodeMs, ttlMs } = answer
  const retention = ttlMs === undefined ? {} : { retentionRemainingMs: ttlMs }
  const isKnown = verdict.state !== 'unknown'
  if (record === undefined) return { node, state: 'absent', differs: isKnown && verdict.state !== 'absent' }
  const differs = isKnown && (record.state !== STATE_ON_NODE[verdict.state] || !agrees(record, verdict))
  const row = { node, state: record.state, token: record.fence, ...retention, differs }
  if (record.state === 'released') return row
  const { attempt, fingerprint } = record
  if (record.state === 'claimed')
    return { ...row, attempt, fingerprint, leaseRemainingMs: Math.max(0, record.leaseUntilNodeMs - nodeMs) }
  const { acceptedToken } = record
  const decoded = decodeOutcome(record.outcome)
  return {
    ...row,
    attempt,
    fingerprint,
    acceptedToken,
    ...(record.copied ? { copied: true } : {}),
    // The quorum reads past one damaged copy: only here it shows which node's memory or disk to look at.
    ...(decoded.kind === 'damaged' ? { differs: true, detail: `damaged: ${decoded.reason}` } : {}),
  }
}

/** What a node shows that agrees with the verdict. */
const STATE_ON_NODE: Record<RecordState, NodeRecord['state'] | undefined> = {
  absent: undefined,
  released: 'released',
  live: 'claimed',
  expired: 'claimed',
  completed: 'completed',
  damaged: 'completed',
  unknown: undefined,
}

function agrees(record: NodeRecord, { token, attempt, fingerprint }: Verdict): boolean {
  if (record.state === 'released') return record.fence === token
  if (record.attempt !== attempt || record.fingerprint !== fingerprint) return false
  return record.state === 'completed' || record.fence === token
}

/**
 * The mark of a sidecar: what the owners of its claims begin with, so that an operator who looks at a record learns which one
 * holds it.
 *
 * The other 80 bits of an owner are random, and a claim has a token besides: two sidecars of one name still never take each
 * other's claims for their own. The owner of a reservation begins with the tag of its session, because any sidecar serves it.
 */

/** Of 16. Among a thousand sidecars two have the same mark once in half a billion times. */
const MARK_BYTES = 6

/** @param name of the sidecar, as its log lines carry it */
export function sidecarMarkOf(name: string): string {
  return sha256Hex(Buffer.from(`fencepost-sidecar/1\0${name}`)).slice(0, 2 * MARK_BYTES)
}

/** The mark of the sidecar that claimed, if it was one. */
export function sidecarMarkIn(owner: Owner): string {
  return owner.slice(0, 2 * MARK_BYTES)
}
