/**
 * Which partitions of the outbox this relay may work on: an equal share for each relay that is alive.
 *
 * A lease is a row, renewed every quarter of `leaseMs` and lasting three quarters, so that another relay takes over a
 * killed relay's partitions within `leaseMs`. It works behind a pooler, unlike a session's advisory lock.
 * This process counts a lease from *before* the renewal, on the monotonic clock, so it stops before others may begin.
 * Losing one mid-batch means duplicates, which the inbox absorbs; it never means loss.
 */
import { safeInteger } from './database.ts'
import { SagaConfigError } from './errors.ts'
import type { SagaKit } from './kit.ts'

export class PartitionLeases {
  readonly #kit: SagaKit
  readonly #relayId: string
  readonly #rowLeaseMs: number
  readonly #held = new Map<number, number>()
  #excess = 0

  constructor(kit: SagaKit, relayId: string, leaseMs: number) {
    this.#kit = kit
    this.#relayId = relayId
    this.#rowLeaseMs = leaseMs * 0.75
  }

  get held(): readonly number[] {
    return [...this.#held.keys()].filter((partition) => this.holds(partition))
  }

  holds(partition: number): boolean {
    return (this.#held.get(partition) ?? 0) > this.#kit.clock.monoMs()
  }

  /** Partitions above the fair share; the relay hands them back when none of their messages is in flight. */
  get excess(): number {
    return this.#excess
  }

  /** Renews what this relay holds and takes free partitions, up to a fair share. */
  async refresh(): Promise<void> {
    const askedMonoMs = this.#kit.clock.monoMs()
    const s = this.#kit.schema
    const me = [this.#relayId, this.#rowLeaseMs]
    const mine = await this.#kit.transaction(async (tx) => {
      await tx.query(
        `INSERT INTO ${s}.outbox_relays VALUES ($1, clock_timestamp() + $2 * interval '1 ms')
         ON CONFLICT (relay_id) DO UPDATE SET alive_until = EXCLUDED.alive_until`,
        me,
      )
      const alive = await tx.query(
        `SELECT count(*) AS n, (SELECT count(*) FROM ${s}.outbox_partitions) AS partitions
         FROM ${s}.outbox_relays WHERE alive_until > clock_timestamp()`,
      )
      const { n, partitions } = alive.rows[0]!
      this.#requireSame(safeInteger(partitions))
      const share = Math.ceil(this.#kit.partitions / safeInteger(n))
      const renewed = await tx.query<{ partition: number }>(
        `UPDATE ${s}.outbox_partitions SET lease_until = clock_timestamp() + $2 * interval '1 ms'
         WHERE owner = $1 AND lease_until > clock_timestamp() RETURNING partition`,
        me,
      )
      this.#excess = Math.max(0, renewed.rows.length - share)
      const wanted = share - renewed.rows.length
      if (wanted <= 0) return renewed.rows
      const taken = await tx.query<{ partition: number }>(
        `UPDATE ${s}.outbox_partitions
         SET owner = $1, fence = fence + 1, lease_until = clock_timestamp() + $2 * interval '1 ms'
         WHERE partition IN (SELECT partition FROM ${s}.outbox_partitions WHERE lease_until <= clock_timestamp()
                             ORDER BY partition LIMIT $3 FOR UPDATE SKIP LOCKED)
         RETURNING partition`,
        [...me, wanted],
      )
      return [...renewed.rows, ...taken.rows]
    })
    const before = [...this.#held.keys()].sort().join()
    this.#held.clear()
    for (const { partition } of mine) this.#held.set(partition, askedMonoMs + this.#rowLeaseMs)
    if ([...this.#held.keys()].sort().join() !== before) this.#report()
  }

  async release(partitions: readonly number[]): Promise<void> {
    if (partitions.length === 0) return
    for (const partition of partitions) this.#held.delete(partition)
    this.#excess = Math.max(0, this.#excess - partitions.length)
    await this.#kit.query(
      `UPDATE ${this.#kit.schema}.outbox_partitions SET owner = NULL, lease_until = '-infinity'
       WHERE owner = $1 AND partition = ANY($2)`,
      [this.#relayId, partitions],
    )
    this.#report()
  }

  /** Hands all partitions back and leaves the list of relays. */
  async leave(): Promise<void> {
    await this.release([...this.#held.keys()])
    await this.#kit.query(`DELETE FROM ${this.#kit.schema}.outbox_relays WHERE relay_id = $1`, [
      this.#relayId,
    ])
  }

  /** Messages of partitions that do not exist would wait for ever, without an error. */
  #requireSame(partitions: number): void {
    if (partitions === this.#kit.partitions) return
    throw new SagaConfigError(
      `the outbox has ${partitions} partitions and this kit has ${this.#kit.partitions}: nothing is relayed until they agree`,
    )
  }

  #report(): void {
    this.#kit.emit({ kind: 'partitions_changed', relayId: this.#relayId, partitions: this.held })
  }
}
