/**
 * What was seen in one fault run, on one monotonic clock, for the checkers: written down while it happens, judged later.
 *
 * Owns the record of facts and its file (JSON lines). An operation that timed out or was reset is `info`: it may have taken
 * effect, now or later, as in Jepsen's histories. Nothing here decides.
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
  /** After the last fault was healed: it must succeed. */
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
  /** What was shown; of `reserve`, what was given. */
  readonly token: number | undefined
  readonly startMs: number
  readonly endMs: number
  readonly healed: boolean
} & (
  | {
      readonly type: 'ok'
      readonly status: number
      readonly code: string
      /** Of a lease that was given: valid for so long from the end of the call, as the sidecar says. */
      readonly expiresInMs: number
    }
  | { readonly type: 'info'; readonly reason: string }
)

export type Operation = Submission | Call

/** The application carried something out: as its own log says, which outlives it. */
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
  /** What it did to bytes, processes or answers, as counted where it was done. */
  readonly bites: number
}

export class History {
  readonly operations: Operation[] = []
  readonly faults: FaultWindow[] = []
  readonly seen = new Map<string, number>()
  readonly startedMs = monoMs()
  readonly #file: string | undefined

  /** @param file of JSON lines; none where not given */
  constructor(file?: string) {
    this.#file = file
    if (file !== undefined) writeFileSync(file, '')
  }

  add(operation: Operation): void {
    this.operations.push(operation)
    this.#write(operation)
  }

  fault(window: FaultWindow): void {
    this.faults.push(window)
    this.#write({ f: 'fault', ...window })
  }

  /** Counts something that must be seen sometimes, or the run proves nothing. */
  saw(sight: string, count = 1): void {
    this.seen.set(sight, (this.seen.get(sight) ?? 0) + count)
  }

  #write(line: object): void {
    if (this.#file !== undefined) appendFileSync(this.#file, `${JSON.stringify(line)}\n`)
  }
}
