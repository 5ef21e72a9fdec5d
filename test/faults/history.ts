/**
 * The facts of one fault run, on one monotonic clock, for the checkers: noted as they happen, judged later.
 *
 * Owns the facts and their file (JSON lines). An operation that timed out or was reset is `info`: it may have taken
 * effect, now or later, as in Jepsen's histories. It decides nothing.
 */

import { appendFileSync, writeFileSync } from 'node:fs'

/** One clock for everything: CLOCK_MONOTONIC, which all processes of a machine share. */
export function monoMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** A request through the proxy, as its client saw it. */
export type Submission = {
  readonly f: 'submit'
  readonly op: number
  readonly sidecar: number
  readonly tenant: string
  readonly key: string
  /** The content under this key: two of them are two requests. */
  readonly content: string
  readonly startMs: number
  readonly endMs: number
  /** Sent after the last fault was healed: it must succeed. */
  readonly healed: boolean
} & (
  | {
      readonly type: 'ok'
      readonly status: number
      /** `Idempotency-Status`. */
      readonly says: string
      readonly body: string
      readonly code: string
    }
  | { readonly type: 'info'; readonly reason: string }
)

/** A call of the reservation API, as its caller saw it. */
export type Call = {
  readonly f: 'reserve' | 'extend' | 'release' | 'complete'
  readonly op: number
  readonly sidecar: number
  readonly key: string
  /** The token that was sent; of `reserve`, the token that was granted. */
  readonly token: number | undefined
  readonly startMs: number
  readonly endMs: number
  readonly healed: boolean
  /** Of `reserve`: the session. */
  readonly session?: string
  /** Of `complete`: the reported result. */
  readonly result?: string
} & (
  | {
      readonly type: 'ok'
      readonly status: number
      readonly code: string
      /** Of a granted lease: its validity from the end of the call, as the sidecar says. */
      readonly expiresInMs: number
      /** Of `reserve`: above 1 where an earlier attempt ended without an outcome. */
      readonly attempt?: number
      /** Of a `reserve` that was refused as completed: the recorded result. */
      readonly outcome?: string
    }
  | { readonly type: 'info'; readonly reason: string }
)

/** A read of the reservation API: the state of a value, or of one reservation of it (`token`). */
export type Look = {
  readonly f: 'standing' | 'standing-of'
  readonly op: number
  readonly sidecar: number
  readonly key: string
  /** Of `standing-of`: the token of the reservation in question. */
  readonly token: number | undefined
  readonly startMs: number
  readonly endMs: number
  readonly healed: boolean
} & (
  | {
      readonly type: 'ok'
      readonly status: number
      readonly code: string
      /** FREE, HELD, EXPIRED, LOST or COMPLETED; empty where it was refused. */
      readonly state: string
      /** The token of the holder, where the answer shows it. */
      readonly shownToken: number | undefined
      readonly outcome?: string
    }
  | { readonly type: 'info'; readonly reason: string }
)

/** An operator's decision about the record of a request or of a reserved value. */
export type Decision = {
  readonly f:
    | 'operator-end'
    | 'operator-complete'
    | 'operator-forget'
    | 'operator-ask'
    /** Of a dead letter: it was not executed. */
    | 'operator-requeue'
    /** Of a dead letter: it was executed, and its answer is not kept. */
    | 'operator-discard'
  readonly op: number
  readonly sidecar: number
  readonly of: 'request' | 'reservation'
  /** Of a request. */
  readonly tenant?: string
  readonly key: string
  /** The token under which the operator saw the record, and alone decides about it. */
  readonly token: number
  /** What the record was: as the sidecar found it under its lock, or as the operator saw it where it does not say. */
  readonly was: 'live' | 'expired' | 'completed'
  /** The outcome that is written, as duplicates are shown it; {@link NOT_KEPT} of a request without an answer. */
  readonly result?: string
  /** Of `operator-ask`: what the application says since its books were opened, to whomever asks. */
  readonly said?: Said
  readonly startMs: number
  readonly endMs: number
  readonly healed: boolean
} & (
  | {
      readonly type: 'ok'
      readonly status: number
      readonly code: string
      /** `done` and `nothing`: the sidecar says so; `unknown`: it took effect, in part or later, or did not. */
      readonly effect: 'done' | 'nothing' | 'unknown'
      /** Of `operator-ask`: what the operator is told that the application says. */
      readonly verdict?: string
    }
  | { readonly type: 'info'; readonly reason: string }
)

export type Said = 'completed' | 'released' | 'unknown'

/** What a request is shown that was executed, and whose answer is not kept: 410. */
export const NOT_KEPT = 'not kept'

export type Operation = Submission | Call | Look | Decision

export function isDecision(operation: Operation): operation is Decision {
  return operation.f.startsWith('operator-')
}

export function isCall(operation: Operation): operation is Call {
  return !['submit', 'standing', 'standing-of'].includes(operation.f) && !isDecision(operation)
}

/** An operation that has begun, without its end. */
export type Begun = Pick<Operation, 'f' | 'op' | 'sidecar' | 'key' | 'startMs' | 'healed'> & {
  readonly tenant?: string
  readonly content?: string
  readonly token?: number | undefined
  readonly session?: string
  readonly result?: string
  readonly said?: Said
  readonly of?: Decision['of']
  readonly was?: Decision['was']
}

/** One execution, from the log of the application, which outlives it. */
export type Execution = {
  readonly key: string
  readonly tenant: string
  readonly content: string
  readonly token: number
  readonly attempt: number
  readonly op: number
  readonly mode: string
  readonly startMs: number
  /** Undefined where it crashed in between. */
  readonly endMs: number | undefined
  readonly answer: string
}

/** A fault, from its first act to its healing. */
export type FaultWindow = {
  readonly id: string
  readonly what: string
  readonly fromMs: number
  readonly untilMs: number
  /** Its effects on bytes, processes or answers, counted at the fault. */
  readonly bites: number
}

export class History {
  readonly operations: Operation[] = []
  readonly faults: FaultWindow[] = []
  readonly seen = new Map<string, number>()
  readonly startedMs = monoMs()
  readonly #file: string | undefined
  readonly #open = new Map<number, Begun>()

  /** @param file of JSON lines; none where not given */
  constructor(file?: string) {
    this.#file = file
    if (file !== undefined) writeFileSync(file, '')
  }

  /** It was sent, and is in the history from now on: without an end as unanswered. */
  begin(operation: Begun): void {
    this.#open.set(operation.op, operation)
  }

  add(operation: Operation): void {
    this.#open.delete(operation.op)
    this.operations.push(operation)
    this.#write(operation)
  }

  /** Adds the executions, each under a lease of `leaseMs`, and the unanswered operations, at the end of the run. */
  close(executions: readonly Execution[], leaseMs: number): void {
    for (const begun of this.#open.values())
      this.#write({ ...begun, type: 'info', endMs: monoMs(), reason: 'the run ended before its answer' })
    this.#open.clear()
    for (const execution of executions) this.#write({ f: 'execution', ...execution, leaseMs })
  }

  fault(window: FaultWindow): void {
    this.faults.push(window)
    this.#write({ f: 'fault', ...window })
  }

  /** Counts a sight; a run that lacks one proves nothing. */
  saw(sight: string, count = 1): void {
    this.seen.set(sight, (this.seen.get(sight) ?? 0) + count)
  }

  #write(line: object): void {
    if (this.#file !== undefined) appendFileSync(this.#file, `${JSON.stringify(line)}\n`)
  }
}
