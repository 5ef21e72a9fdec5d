/**
 * The sweeper: finds claims that expired without an outcome, writes each down once as a dead letter, and, where
 * configured, asks the application what became of it. Dead letters of failed renewals, of work that went on after its lease was lost, are
 * closed where they have an answer; what stays open is a person's to decide.
 *
 * Owns one round over all keys. It runs under an elected leader, looks at one node at a time in small steps, and trusts
 * no single node: a quorum read checks what a node shows before it is reported, and a claim decides it.
 */

import type { Clock, Timer } from '../core/clock.ts'
import { type AuditEntry, type AuditLog, deadLetterId, type Untaken } from '../core/coordination/audit-log.ts'
import {
  adoptOutcome,
  concludeOrphan,
  type DecisionTerms,
  executedOutcome,
  forgetOrphan,
  type Orphan,
  type OrphanSettled,
  type SettleReply,
  verdictOf,
} from '../core/coordination/settle-orphan.ts'
import type { Leases } from '../core/ports.ts'
import type { Token } from '../core/record/token.ts'
import { isWork } from '../core/request/identity.ts'

/** An expired claim as one node shows it. */
type Expired = { readonly recordKey: string; readonly token: Token }

interface RecordSource {
  /** Expired claims among some keys of one node, and the next cursor; `0` begins and ends. Rejects on failure. */
  expired(cursor: string): Promise<{ readonly found: readonly Expired[]; readonly cursor: string }>
}

type SweeperOptions = {
  /** One per node. */
  readonly sources: readonly RecordSource[]
  readonly leases: Leases
  readonly auditLog: AuditLog
  readonly clock: Clock
  /** Of the claims that settle the application's answers, and their outcomes. */
  readonly terms: DecisionTerms
  /** Asks the application; undefined where none is configured. */
  readonly ask: ((orphan: Orphan) => Promise<SettleReply>) | undefined
  readonly untaken: Untaken
  readonly onFailure: (cause: unknown) => void
}

/** Pause between two steps over the keys of a node: a step of a thousand keys takes the node some 7 ms, in calls of less than one. */
const STEP_PAUSE_MS = 20

/** How many orphans are remembered as reported; a forgotten one is written again, as the same entry. */
const REPORTED_MAX = 10_000

export function createSweeper(options: SweeperOptions) {
  const { sources, leases, auditLog, clock, terms, ask, untaken, onFailure } = options
  const reported = new Set<string>()
  /** Dead letters of this sweep that are not kept. */
  const unwritten: string[] = []

  /** @returns how many open orphans were found; settled ones do not count */
  async function sweepOnce(over: AbortSignal): Promise<number> {
    const seen = new Set<string>()
    let open = 0
    unwritten.length = 0
    for (const source of sources) {
      try {
        for (let cursor = '0', first = true; first || cursor !== '0'; first = false) {
          if (over.aborted) return open
          const step = await source.expired(cursor)
          cursor = step.cursor
          for (const { recordKey } of step.found) {
            // Entities and marks of contents expire on purpose; no request's work ends with them.
            if (seen.has(recordKey) || !isWork(recordKey)) continue
            seen.add(recordKey)
            if (await look(recordKey)) open += 1
          }
          await paused(clock, STEP_PAUSE_MS, over)
        }
      } catch (cause) {
        // This node can't be reached now: the others show its records too.
        onFailure(cause)
      }
    }
    const [first] = unwritten
    if (first !== undefined)
      untaken.lost('dead-letters', `${first} among them: the next sweep writes them`, unwritten.length)
    await decideDeadLetters(options, over)
    return open
  }

  async function look(recordKey: string): Promise<boolean> {
    const record = await leases.read(recordKey)
    // A node shows an outcome that the read could not help to a majority: a claim adopts it, where no holder is live.
    if (record.kind === 'unavailable' && record.minorityOutcome !== undefined)
      return !(await adoptOutcome({ recordKey, ...record.minorityOutcome }, terms, leases))
    if (record.kind !== 'claimed' || record.remainingMs > 0) return false
    const { token, attempt, fingerprint } = record
    const orphan: Orphan = { recordKey, token, attempt, fingerprint }
    // A node shows an outcome: the next claim adopts it, and the orphan is gone.
    if (record.minorityOutcome === true) return !(await adoptOutcome(orphan, terms, leases))
    // The answer "not executed" promises to refuse this token and all below it from now on: so every later claim must
    // exceed it. Claims may stay below the token of a minority, so a question about that can't be settled.
    if (ask !== undefined && record.majorityReached === true && (await isOverBy(ask, orphan))) return false
    await report(orphan)
    return true
  }

  /** Settled, or recorded while the application was asked. In any other case it must still be reported. */
  async function isOverBy(asked: NonNullable<typeof ask>, orphan: Orphan): Promise<boolean> {
    const reply = await asked(orphan)
    switch (verdictOf(reply)) {
      case 'unknown':
        return false
      case 'released':
        return isOver(await forgetOrphan(orphan, terms, leases))
      case 'completed':
        return isOver(await concludeOrphan(orphan, executedOutcome(reply, clock.wallMs()), terms, leases))
    }
  }

  async function report({ recordKey, token, attempt, fingerprint }: Orphan): Promise<void> {
    const id = deadLetterId(recordKey, token)
    if (reported.has(id)) return
    const fields = { token: String(token), attempt: String(attempt), fingerprint }
    const written = await auditLog.append('dead-letters', {
      id,
      kind: 'orphan',
      atWallMs: clock.wallMs(),
      recordKey,
      fields,
    })
    if (!written) return void unwritten.push(id)
    if (reported.size >= REPORTED_MAX) reported.clear()
    reported.add(id)
  }

  return { sweepOnce }
}

function isOver(settled: OrphanSettled): boolean {
  return settled.kind === 'settled' || (settled.kind === 'not_an_orphan' && settled.because === 'duplicate')
}

/** Resolves after `delayMs`, or at once when it is over. */
export function paused(clock: Clock, delayMs: number, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (over.aborted) return resolve()
    let timer: Timer | undefined
    const done = () => {
      timer?.cancel()
      over.removeEventListener('abort', done)
      resolve()
    }
    over.addEventListener('abort', done, { once: true })
    timer = clock.timer(delayMs, done)
  })
}

type RenewalDeadLetterPorts = Pick<SweeperOptions, 'leases' | 'auditLog' | 'clock' | 'ask'>

/** Dead letters that a round looks at, the newest. */
const DEAD_LETTERS_MAX = 1_000

/**
 * Closes dead letters about failed renewals that have an answer: the claim's own outcome stands on its record, or the application
 * says that the claim was not executed. Where a retry took over, the record itself no longer shows the question.
 */
async function decideDeadLetters(ports: RenewalDeadLetterPorts, over: AbortSignal): Promise<void> {
  const { auditLog, clock } = ports
  const deadLetters = await auditLog.read('dead-letters', DEAD_LETTERS_MAX)
  if (deadLetters.kind === 'unavailable') return
  for (const deadLetter of deadLetters.entries) {
    if (over.aborted) return
    if (deadLetter.kind !== 'renewal_failed') continue
    const because = await answerTo(deadLetter, ports)
    if (because === undefined) continue
    const { id, recordKey } = deadLetter
    const fields = { act: 'settle', entry: id, by: 'sweeper', because }
    const line = {
      id: `sweeper:settle:${id}`,
      kind: 'operator',
      atWallMs: clock.wallMs(),
      recordKey,
      fields,
    } as const
    if (await auditLog.append('audit', line)) await auditLog.remove('dead-letters', id)
  }
}

/** Undefined while nobody but a person can know. */
async function answerTo(
  { recordKey, fields }: AuditEntry,
  { leases, ask }: RenewalDeadLetterPorts,
): Promise<string | undefined> {
  const { fingerprint = '', attempt } = fields
  const orphan = { recordKey, fingerprint, attempt: Number(attempt ?? 1), token: Number(fields.token) }
  const record = await leases.read(recordKey)
  if (record.kind === 'unavailable' || record.kind === 'damaged') return undefined
  if (record.kind === 'completed' && record.token === orphan.token) return 'its outcome was recorded'
  // Only of a claim that another one surely came after (see above). As long as it is the last one of its record, the
  // record is looked at, and the answer written to it.
  const isLater = 'token' in record && record.token > orphan.token
  if (!isLater || (record.kind === 'claimed' && record.majorityReached !== true)) return undefined
  if (ask === undefined || (await ask(orphan)) !== 'released') return undefined
  return 'the application says that it was not carried out'
}
