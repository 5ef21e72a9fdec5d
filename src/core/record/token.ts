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
 */
export class TokenSource {
  readonly #wallMs: () => number
  readonly #counter: number
  #last: Token = NO_TOKEN
  /** How far our clock was ahead of what nodes tolerate. */
  #aheadMs = 0

  /** @param share where the counter of this process begins, as a share of all of them: drawn once */
  constructor(wallMs: () => number, share = 0) {
    this.#wallMs = wallMs
    this.#counter = Math.floor(share * COUNTER_SIZE)
  }

  next(above: Token = NO_TOKEN): Token {
    const near = tokenAt(this.#wallMs() - this.#aheadMs) + this.#counter
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
    this.#aheadMs = Math.max(0, this.#wallMs() - nodeMs)
    this.#last = Math.min(this.#last, tokenAt(nodeMs))
  }
}
