/**
 * The secret that signs reservation ids and names sessions: given by the operator, or agreed through the nodes.
 *
 * Agreed means: it is the outcome of a record of its own, so the record protocol itself makes it one for all sidecars,
 * whichever comes first. The key of that record belongs to no request (`%` alone is in no encoded name), and is among
 * those that are copied to a node that forgot. Any reader of the nodes can read it; such a reader could change the
 * records as well.
 *
 * It is read again every minute, and for an id that is not recognised: where the nodes were emptied and agreed anew,
 * the new secret signs and the one before still verifies.
 */

import { createHmac } from 'node:crypto'
import type { Clock, Random } from '../clock.ts'
import { sha256Hex } from '../formats/framing.ts'
import type { Leases } from '../ports.ts'
import { type Backoff, jitteredDelayMs, pause, pauseUnless } from '../retry.ts'
import { SESSION_TAG_BYTES } from './reservations.ts'

export const SECRET_RECORD_KEY = 'dedup:%:%:%:reservation-secret'

const SECRET_BYTES = 32
const SECRET_FINGERPRINT = sha256Hex(Buffer.from('fencepost-reservation-secret/1'))
/** No work is done under this lease: it only has to outlast the two rounds that agreeing takes. */
const AGREEING_LEASE_MS = 2_000
/** If it expired, it would be replaced while ids signed with it are in use. */
const SECRET_RETENTION_MS = 20 * 366 * 86_400_000
const LOOK_AGAIN_MS = 60_000
/** A look goes on in the background, whoever waits for it for a shorter time: the next caller finds what it found. */
const LOOK_BUDGET_MS = 1_000
/** An unrecognised id triggers a look; a flood of them must not flood the nodes. */
const LOOK_AGAIN_SOONEST_MS = 1_000
const BACKOFF: Backoff = { initialMs: 20, maxMs: 200 }

export interface ReservationSecret {
  /**
   * The first signs, any of them verifies; empty where too few nodes have answered to agree on one.
   *
   * @param withinMs how long to wait for that at most
   */
  current(withinMs: number): Promise<readonly Buffer[]>
  /**
   * Looks again, for an id that the present ones do not verify; at most once a second. Undefined where too few nodes
   * have answered to say.
   *
   * @param withinMs how long to wait for that at most
   */
  refreshed(withinMs: number): Promise<readonly Buffer[] | undefined>
}

/** @param secrets as they are now: the first signs, the others still verify */
export function givenSecret(secrets: () => readonly Buffer[]): ReservationSecret {
  return { current: async () => secrets(), refreshed: async () => secrets() }
}

export type SecretPorts = {
  readonly leases: Pick<Leases, 'claim' | 'complete'>
  readonly clock: Clock
  readonly random: Random
}

export function agreedSecret(ports: SecretPorts): ReservationSecret {
  const { clock } = ports
  let secrets: readonly Buffer[] = []
  let lookedMonoMs = Number.NEGATIVE_INFINITY
  let looking: Promise<void> | undefined

  function look(): Promise<void> {
    looking ??= agree(ports)
      .then((agreed) => {
        if (agreed === undefined) return
        lookedMonoMs = clock.monoMs()
        if (secrets[0]?.equals(agreed) !== true) secrets = [agreed, ...secrets.slice(0, 1)]
      })
      .finally(() => {
        looking = undefined
      })
    return looking
  }

  return {
    current: async (withinMs) => {
      if (secrets.length === 0) await pauseUnless([look()], withinMs, clock)
      else if (clock.monoMs() - lookedMonoMs > LOOK_AGAIN_MS) void look()
      return secrets
    },
    refreshed: async (withinMs) => {
      const before = lookedMonoMs
      if (clock.monoMs() - before <= LOOK_AGAIN_SOONEST_MS) return secrets
      await pauseUnless([look()], withinMs, clock)
      return lookedMonoMs === before ? undefined : secrets
    },
  }
}

async function agree({ leases, clock, random }: SecretPorts): Promise<Buffer | undefined> {
  const untilMonoMs = clock.monoMs() + LOOK_BUDGET_MS
  // One owner, so that a round whose completion was lost does not block the next.
  const owner = random.hex(16)
  for (let retry = 0; ; retry += 1) {
    const claimed = await leases.claim({
      key: SECRET_RECORD_KEY,
      fingerprint: SECRET_FINGERPRINT,
      owner,
      leaseMs: AGREEING_LEASE_MS,
      retentionMs: SECRET_RETENTION_MS,
      budgetMs: Math.max(1, untilMonoMs - clock.monoMs()),
    })
    if (claimed.kind === 'duplicate' && claimed.outcome.kind === 'result')
      return secretFrom(claimed.outcome.result)
    if (claimed.kind === 'granted') {
      const secret = random.hex(SECRET_BYTES)
      const completedAtWallMs = clock.wallMs()
      const recorded = await leases.complete(claimed.lease, {
        kind: 'result',
        result: secret,
        completedAtWallMs,
      })
      if (recorded.kind === 'recorded') return secretFrom(secret)
      // Not known to be the common secret: only one that a majority holds may sign. The next round finds it.
    }
    const delayMs = jitteredDelayMs(BACKOFF, retry, random)
    if (clock.monoMs() + delayMs >= untilMonoMs) return undefined
    await pause(clock, delayMs)
  }
}

function secretFrom(result: unknown): Buffer | undefined {
  return typeof result === 'string' && /^[0-9a-f]{64}$/.test(result) ? Buffer.from(result, 'hex') : undefined
}

/** {@link SESSION_TAG_BYTES} of a keyed hash: it identifies a session, and no outsider can compute it. */
export function sessionTagOf(
  secret: Buffer,
  { tenant, env, sessionId }: { readonly tenant: string; readonly env: string; readonly sessionId: string },
): string {
  const text = JSON.stringify(['fencepost-session/1', tenant, env, sessionId])
  return createHmac('sha256', secret)
    .update(text)
    .digest('hex')
    .slice(0, 2 * SESSION_TAG_BYTES)
}
