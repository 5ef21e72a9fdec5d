/**
 * The application behind the sidecars, and a resource that compares fencing tokens.
 *
 * Owns what was really executed. It is not part of the system under test: it never fails to note what it did.
 */

import type { ForwardContext, ForwardResult } from '../../src/core/ports.ts'
import type { Dice } from './dice.ts'
import type { History, Submission } from './history.ts'
import type { Work } from './plan.ts'
import type { SimulatedProcess } from './process.ts'
import type { Scheduler } from './scheduler.ts'

/** The sidecar waits no longer for an answer of the application. */
const UPSTREAM_TIMEOUT_MS = 3_000

export class Application {
  readonly #scheduler: Scheduler
  readonly #history: History
  readonly #dice: Dice
  /** For each key, the token up to which it said that it has not executed the request: from then on it never does. */
  readonly #renounced = new Map<string, number>()
  /** For each key, the largest token that a writer has shown: `WHERE last_fencing_token <= $token`. */
  readonly #lastToken = new Map<string, number>()

  constructor(scheduler: Scheduler, history: History, dice: Dice) {
    this.#scheduler = scheduler
    this.#history = history
    this.#dice = dice
  }

  carryOut(
    submission: Submission,
    context: ForwardContext | undefined,
    work: Work,
    process: SimulatedProcess,
  ): Promise<ForwardResult> {
    submission.forwarded = true
    const wayMs = 0.2 + this.#dice.fraction()
    const id = `${submission.index}`
    return new Promise((resolve) => {
      const answer = (afterMs: number, result: ForwardResult) =>
        this.#scheduler.after(afterMs, () => process.deliver(() => resolve(result)))
      const lost = { kind: 'no_answer', cause: 'timeout', detail: 'simulated' } as const
      switch (work.ends) {
        case 'never_sent':
          answer(work.ms, { kind: 'never_sent', detail: 'refused' })
          return
        case 'lost_before':
          answer(UPSTREAM_TIMEOUT_MS, lost)
          return
        case 'no_answer':
        case 'answers':
        case 'fails':
          this.#scheduler.after(wayMs, () => {
            if (context !== undefined && context.token <= (this.#renounced.get(submission.key) ?? 0))
              return answer(wayMs, answered(500, id))
            this.#execute(id, submission, context, process)
            if (work.ends === 'no_answer') answer(work.ms, { ...lost, cause: 'reset' })
            else answer(work.ms + wayMs, answered(work.ends === 'answers' ? 201 : 500, id))
          })
      }
    })
  }

  #execute(
    id: string,
    submission: Submission,
    context: ForwardContext | undefined,
    process: SimulatedProcess,
  ): void {
    const { key, fingerprint } = submission
    const { token, attempt } = context ?? { token: 0, attempt: 1 }
    const startedMs = this.#scheduler.nowMs
    this.#history.executions.push({
      id,
      operation: submission.index,
      key,
      fingerprint,
      token,
      attempt,
      process: process.name,
      startedMs,
      under: submission.without ?? 'quorum',
    })
    this.#history.step(
      startedMs,
      11,
      () => `application executes request ${id} (attempt ${attempt}, token ${token})`,
    )
    if (context !== undefined) this.write(key, token)
  }

  /** Called by the sweeper. It says "not executed" only of a request that it will not execute later either. */
  whatBecameOf(key: string, token: number): 'completed' | 'released' {
    if (this.#history.executions.some((execution) => execution.key === key)) {
      this.#history.saw('orphan_concluded')
      return 'completed'
    }
    this.#history.saw('orphan_forgotten')
    this.#renounced.set(key, Math.max(token, this.#renounced.get(key) ?? 0))
    return 'released'
  }

  /** A write with its fencing token; refused where a larger one was seen. */
  write(key: string, token: number): boolean {
    const last = this.#lastToken.get(key) ?? 0
    if (token < last) {
      this.#history.saw('stale_write_refused')
      return false
    }
    this.#lastToken.set(key, token)
    return true
  }
}

function answered(status: number, id: string): ForwardResult {
  return {
    kind: 'answered',
    response: { status, headers: [['content-type', 'text/plain']], body: Buffer.from(id) },
  }
}
