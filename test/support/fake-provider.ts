/**
 * A well-behaved payment provider: the same key is the same charge for any caller and any number of calls; a refund
 * undoes it once, and a refund of a key that was never charged bars it. It can decline, fail before or after the
 * charge, or hold its answer until the test lets it go.
 */
export type Charge = { readonly key: string; readonly amount: number; refunded: boolean }

export type Mood = 'ok' | 'decline' | 'fail-before' | 'fail-after'

export class FakeProvider {
  /** Every request that arrived, repetitions included. */
  readonly calls: string[] = []
  readonly charges = new Map<string, Charge>()
  readonly barred = new Set<string>()
  /** How the next requests end, in turn; then `ok`. */
  readonly moods: Mood[] = []
  /** Awaited before the charge. */
  hold: Promise<void> | undefined

  async charge(key: string, amount: number): Promise<{ chargeId: string }> {
    this.calls.push(key)
    const mood = this.moods.shift() ?? 'ok'
    await this.hold
    if (mood === 'decline') throw new Declined()
    if (mood === 'fail-before') throw new Error('provider: 503')
    if (this.barred.has(key)) throw new Error('provider: this key was cancelled')
    if (!this.charges.has(key)) this.charges.set(key, { key, amount, refunded: false })
    if (mood === 'fail-after') throw new Error('provider: connection reset')
    return { chargeId: key }
  }

  find(key: string): { chargeId: string } | undefined {
    return this.charges.has(key) ? { chargeId: key } : undefined
  }

  async refund(key: string): Promise<void> {
    const charge = this.charges.get(key)
    if (charge === undefined) this.barred.add(key)
    else charge.refunded = true
  }

  get kept(): number {
    return [...this.charges.values()].filter(({ refunded }) => !refunded).length
  }
}

export class Declined extends Error {
  constructor() {
    super('card declined')
  }
}
