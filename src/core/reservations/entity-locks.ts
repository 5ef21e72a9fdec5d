/**
 * Lets only one of different requests work on an entity at a time.
 *
 *   claim each entity in the order of its key, waiting for those that others hold → all under one token → work → give back
 *
 * Owns leases on further records, which never get an outcome. The request's own record is claimed before, so a duplicate
 * never waits here; entities are claimed in one order by everybody, so nobody waits in a circle; waiting is bounded for
 * all of them together. The token that the application is told is the largest of all: larger than that of every earlier
 * holder of the record and of each entity. It takes one more round, in which the record is raised to it.
 */

import { type Keeping, keepLease, type LeaseKeeper, type LeaseKeeperPorts } from '../claims/lease-keeper.ts'
import { type Turns, untilNextTry } from '../claims/turns.ts'
import { isTaken } from '../claims/waiters.ts'
import { NOT_COUNTED, type Outcome } from '../outcome.ts'
import type { ClaimResult, Clock, Leases, Random } from '../ports.ts'
import { fingerprintOfName } from '../request/identity.ts'
import { type Backoff, whenAborted } from '../retry.ts'

export type EntityLocks = {
  readonly recordKeys: readonly string[]
  /** For all of them together. */
  readonly waitMs: number
}

export type EntityPolicy = Keeping & {
  readonly leaseMs: number
  readonly retentionMs: number
  readonly budgetMs: number
}

export type EntityPorts = Omit<LeaseKeeperPorts, 'leases'> & {
  readonly leases: Leases
  readonly clock: Clock
  readonly random: Random
  /** Where those who wait are let in one after the other; absent where each tries for itself. */
  readonly turns?: Turns
}

export type Locked =
  | {
      readonly kind: 'locked'
      /** Whether all of them still stand. They may stand on nodes of another group than the record of the request. */
      readonly held: () => boolean
      /** The work is over. */
      readonly unlock: () => Promise<void>
      /** Whether it is over is not known: the leases are left to end. */
      readonly abandon: () => void
    }
  | Extract<Outcome, { kind: 'entity_busy' | 'unavailable' }>

const WAIT_BACKOFF: Backoff = { initialMs: 15, maxMs: 150 }
const RETRY_SOON_MS = 1_000

/** @param holder keeps the record of the request; it is raised to the token of the entities */
export async function lockEntities(
  entities: EntityLocks,
  holder: LeaseKeeper,
  policy: EntityPolicy,
  abandoned: AbortSignal | undefined,
  ports: EntityPorts,
): Promise<Locked> {
  const { clock } = ports
  const keepers: LeaseKeeper[] = []
  const unlock = async (): Promise<void> => {
    await Promise.all(
      keepers.map(async (keeper) => {
        keeper.stop('released')
        await ports.leases.release(keeper.lease())
        ports.turns?.freed(keeper.lease().key)
      }),
    )
  }
  const untilMonoMs = clock.monoMs() + entities.waitMs
  const keys = [...new Set(entities.recordKeys)].sort((a, b) =>
    Buffer.compare(Buffer.from(a), Buffer.from(b)),
  )
  for (const key of keys) {
    const claimed = await claimOrWait(key, holder.lease().owner, policy, untilMonoMs, abandoned, ports)
    if (claimed.kind !== 'granted') {
      await unlock()
      return claimed.kind === 'unavailable'
        ? { ...claimed, retryAfterMs: RETRY_SOON_MS }
        : {
            kind: 'entity_busy',
            retryAfterMs: 'retryAfterMs' in claimed ? claimed.retryAfterMs : RETRY_SOON_MS,
          }
    }
    keepers.push(keepLease(claimed.lease, ports, policy))
  }
  const all = [holder, ...keepers]
  const before = all.map((keeper) => keeper.lease())
  const token = Math.max(...before.map((lease) => lease.token))
  const raised = await Promise.all(all.map((keeper) => keeper.raise(token)))
  if (!raised.every(Boolean)) {
    // Where a claim could not be raised, nodes may hold either token. Under the larger one the holder gives back its own.
    await Promise.all(
      before.filter((lease) => lease.token !== token).map((lease) => ports.leases.release(lease)),
    )
    await unlock()
    return { kind: 'unavailable', answered: 0, required: NOT_COUNTED, retryAfterMs: RETRY_SOON_MS }
  }
  const abandon = (): void => {
    for (const keeper of keepers) keeper.stop('abandoned')
  }
  return { kind: 'locked', held: () => keepers.every((keeper) => keeper.held()), unlock, abandon }
}

async function claimOrWait(
  key: string,
  owner: string,
  { leaseMs, retentionMs, budgetMs }: EntityPolicy,
  untilMonoMs: number,
  abandoned: AbortSignal | undefined,
  { leases, clock, random, turns }: EntityPorts,
): Promise<ClaimResult> {
  const fingerprint = fingerprintOfName(key)
  const left = whenAborted(abandoned)
  const gone = () => abandoned?.aborted === true
  const claim = () => leases.claim({ key, fingerprint, owner, leaseMs, retentionMs, budgetMs })
  const behind = untilMonoMs > clock.monoMs() && turns?.waiting(key) === true
  let last: ClaimResult = behind ? { kind: 'held', retryAfterMs: RETRY_SOON_MS } : await claim()
  if (!isTaken(last)) return last
  using turn = turns?.enter(key)
  for (let retry = 0; ; retry += 1) {
    const leftMs = untilMonoMs - clock.monoMs()
    if (leftMs <= 0 || gone()) return last
    await untilNextTry({ turn, retry, backoff: WAIT_BACKOFF, left, leftMs }, { clock, random })
    if (gone()) return last
    last = await claim()
    if (!isTaken(last)) return last
  }
}
