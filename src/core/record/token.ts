/**
 * Fencing tokens, which are also the ballots of the record protocol.
 *
 * A token is `milliseconds since 1970 · 1024 + counter`: 16 decimal digits until the year 2248, below 2^53, so it is
 * exact as a JavaScript number, as a JSON number and as a BIGINT. On a node it travels as a 16-digit string and is
 * compared as a string, because Lua prints numbers with 14 digits only.
 *
 * The clock inside a token makes collisions rare; it is never what orders tokens. Order comes from the nodes: a token
 * is granted only above every token that a majority has seen (`record.ts`).
 */

import { type Clock, type Instant, now } from '../clock.ts'

export type Token = number

/** Digits of a token on a node. */
export const TOKEN_DIGITS = 16

/** The token of a record that no claim has reached; below every real token. */
export const NO_TOKEN: Token = 0

const COUNTER_SIZE = 1024

/** The first token that belongs to the millisecond `wallMs`. */
export function tokenAt(wallMs: number): Token {
  return Math.floor(wallMs) * COUNTER_SIZE
}

/** The millisecond inside a token. */
export function millisecondOf(token: Token): number {
  return Math.floor(token / COUNTER_SIZE)
}

export function formatToken(token: Token): string {
  return String(token).padStart(TOKEN_DIGITS, '0')
}

/** @throws RangeError where `text` is not what {@link formatToken} writes. */
export function parseToken(text: string): Token {
  if (!/^\d{16}$/.test(text))
    throw new RangeError(`not a fencing token: ${JSON.stringify(text)} (16 digits expected)`)
  const token = Number(text)
  if (!Number.isSafeInteger(token)) throw new RangeError(`fencing token ${text} is above 2^53 - 1`)
  return token
}

/**
 * Proposes tokens of this process: above the last one proposed, above everything seen on nodes, and near the clock. It
 * does not promise uniqueness across processes: two may propose the same token, and the nodes' rule "above the fence,
 * or the same owner again" lets only one of them have a majority. It makes that rare, because a refusal cannot
 * distinguish a rival with an equal token from a holder: each process begins at a counter of its own.
 *
 * Where nodes refuse our clock as too far ahead, tokens follow the nodes' time instead, for as long as our clock is
 * ahead of that. They must not stay behind once it was put right: on nodes that have forgotten a record, an execution
 * with a smaller token loses to an earlier one whose outcome comes late. Our own two clocks carry the nodes' time on,
 * so a clock that is set back is believed at once. One that is slowed down until it is right slows down both: then
 * tokens lag by what they lost since the last answers to a claim, and catch up with those.
 */
export class TokenSource {
  readonly #clock: Clock
  readonly #counter: number
  #last: Token = NO_TOKEN
  /** The nodes' time, and when it was that, since nodes have refused a token of ours. */
  #nodes: { readonly ms: number; readonly at: Instant } | undefined

  /** @param share where the counter of this process begins, as a share of all of them: drawn once */
  constructor(clock: Clock, share = 0) {
    this.#clock = clock
    this.#counter = Math.floor(share * COUNTER_SIZE)
  }

  next(above: Token = NO_TOKEN): Token {
    const near = tokenAt(this.#nearMs(now(this.#clock))) + this.#counter
    this.#last = Math.max(near, this.#last + 1, this.#above(above))
    return this.#last
  }

  /** The next token with our counter: rivals that hear of the same fence at the same moment take theirs. */
  #above(token: Token): Token {
    const next = token + 1
    return next + ((((this.#counter - next) % COUNTER_SIZE) + COUNTER_SIZE) % COUNTER_SIZE)
  }

  /**
   * A node refused our token as too far in the future: our clock is wrong, or the clock of an earlier claimant was.
   * From now on propose tokens near the nodes' time; their order needs no clock.
   */
  rewindTo(nodeMs: number): void {
    this.#nodes = { ms: nodeMs, at: now(this.#clock) }
    this.#last = Math.min(this.#last, tokenAt(nodeMs))
  }

  /**
   * A round was answered. @param reachedMs the time that a majority of the nodes has reached, so that it refuses no
   * token near it; asked for only where tokens follow the nodes
   */
  catchUpWith(reachedMs: () => number | undefined): void {
    if (this.#nodes === undefined) return
    const at = now(this.#clock)
    const ms = reachedMs()
    if (ms !== undefined && ms > this.#nearMs(at)) this.#nodes = { ms, at }
  }

  /** Our clock; where nodes refused it, no further than the nodes' time. */
  #nearMs(at: Instant): number {
    if (this.#nodes === undefined) return at.wallMs
    // A clock that is put right goes back or slows down, and a suspended machine stops the other one.
    const passedMs = Math.max(at.wallMs - this.#nodes.at.wallMs, at.monoMs - this.#nodes.at.monoMs)
    return Math.min(at.wallMs, this.#nodes.ms + passedMs)
  }
}
