/**
 * The sweeper: finds claims that lapsed without an outcome, writes each down once as a dead letter, and asks the
 * application what became of it where the configuration says how.
 *
 * Owns one round over all keys. It runs under an elected leader, looks at one node at a time in small steps, and believes
 * no single node: what a node shows is checked by a quorum read before it is told to anybody, and decided by a claim.
 */

import type { Clock, Timer } from '../core/clock.ts'
import type { AuditLog } from '../core/coordination/audit-log.ts'
import {
  adoptOutcome,
  concludeOrphan,
  type DecisionTerms,
  forgetOrphan,
  type Orphan,
  type OrphanSettled,
} from '../core/coordination/settle-orphan.ts'
import type { Leases } from '../core/ports.ts'
import type { Token } from '../core/record/token.ts'
import { isWork } from '../core/request/identity.ts'

/** A lapsed claim as one node shows it. */
export type Lapsed = { readonly recordKey: string; readonly token: Token }

export interface RecordSource {
  /** Lapsed claims among some keys of one node, and how to go on; cursor `0` begins and ends. Rejects where it can't. */
  lapsed(cursor: string): Promise<{ readonly found: readonly Lapsed[]; readonly cursor: string }>
}

export type Verdict = 'completed' | 'released' | 'unknown'

export type SweeperOptions = {
  /** One a node. */
  readonly sources: readonly RecordSource[]
  readonly leases: Leases
  readonly auditLog: AuditLog
  readonly clock: Clock
  /** Of the claims that settle what the application answers, and their outcomes. */
  readonly terms: DecisionTerms
  /** Asks the application; undefined where nobody is to be asked. */
  readonly ask: ((orphan: OrphanSeen) => Promise<Verdict>) | undefined
  readonly onFailure: (cause: unknown) => void
}

export type OrphanSeen = Orphan

/** Pause between two steps over the keys of a node: a step costs the node some 50 µs. */
const STEP_PAUSE_MS = 20

/** How many orphans are remembered as written down; one that is forgotten is written again, and stands there once. */
const REPORTED_MAX = 10_000

export function createSweeper(options: SweeperOptions) {
  const { sources, leases, auditLog, clock, terms, ask, onFailure } = options
  const reported = new Set<string>()

  /** @returns how many orphans were found that stand; settled ones do not count */
  async function sweepOnce(over: AbortSignal): Promise<number> {
    const seen = new Set<string>()
    let open = 0
    for (const source of sources) {
      try {
        for (let cursor = '0', first = true; first || cursor !== '0'; first = false) {
          if (over.aborted) return open
          const step = await source.lapsed(cursor)
          cursor = step.cursor
          for (const { recordKey } of step.found) {
            // Entities and marks of contents lapse on purpose; no work of a request ends with them.
            if (seen.has(recordKey) || !isWork(recordKey)) continue
            seen.add(recordKey)
            if (await look(recordKey)) open += 1
          }
          await paused(clock, STEP_PAUSE_MS, over)
        }
      } catch (cause) {
        // A node that can't be looked at now: the others show its records too.
        onFailure(cause)
      }
    }
    return open
  }

  async function look(recordKey: string): Promise<boolean> {
    const record = await leases.read(recordKey)
    // An outcome that a node shows and reading could not help to a majority: a claim adopts it, where nobody holds the record.
    if (record.kind === 'unavailable' && record.minorityOutcome !== undefined)
      return !(await adoptOutcome({ recordKey, ...record.minorityOutcome }, terms, leases))
    if (record.kind !== 'claimed' || record.remainingMs > 0) return false
    const { token, attempt, fingerprint } = record
    const orphan: OrphanSeen = { recordKey, token, attempt, fingerprint }
    // A node shows an outcome: whoever claims it adopts that, and then it is none.
    if (record.minorityOutcome === true) return !(await adoptOutcome(orphan, terms, leases))
    // Whoever says that it was not carried out refuses its token, and all below it, from now on: so it must be one that every
    // later claim exceeds. One of a minority may stay ahead of them, and what is asked in its name can't be settled.
    if (ask !== undefined && record.majorityReached === true && (await isOverBy(ask, orphan))) return false
    await report(orphan)
    return true
  }

  /** Settled, or recorded while the application was asked. What else came between leaves it to be told. */
  async function isOverBy(asked: NonNullable<typeof ask>, orphan: OrphanSeen): Promise<boolean> {
    const verdict = await asked(orphan)
    switch (verdict) {
      case 'unknown':
        return false
      case 'released':
        return isOver(await forgetOrphan(orphan, terms, leases))
      case 'completed': {
        const outcome = { kind: 'tombstone', status: 200, completedAtWallMs: clock.wallMs() } as const
        return isOver(await concludeOrphan(orphan, outcome, terms, leases))
      }
    }
  }

  async function report({ recordKey, token, attempt, fingerprint }: OrphanSeen): Promise<void> {
    const id = `orphan:${recordKey.slice(-16)}:${token}`
    if (reported.has(id)) return
    const fields = { token: String(token), attempt: String(attempt), fingerprint }
    const written = await auditLog.append('dead-letters', {
      id,
      kind: 'orphan',
      atWallMs: clock.wallMs(),
      recordKey,
      fields,
    })
    if (!written) return
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
