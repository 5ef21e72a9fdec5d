/**
 * A Redis node as enrolment sees it: the port `MemberActs` over one connection, for one run of the node's process.
 *
 * Owns storing a node's quarantine on the node and moving records. Every command that must not reach another run of the
 * process carries its `run_id`, because the connection reconnects by itself.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import type {
  Adoption,
  Cluster,
  CopyProgress,
  Inspection,
  Origin,
  WhyAnew,
} from '../core/nodes/enrolment-rules.ts'
import { type MemberActs, NO_EPOCH, type SeenRun } from '../core/nodes/member.ts'
import { callBatch } from './batch.ts'
import { adoptFrame, type Frame, inspectFrame, standingFrame } from './frames.ts'
import { inTime } from './in-time.ts'
import { RECORD_PATTERN } from './keys.ts'
import { callMembership } from './membership.ts'
import type { Script } from './scripts.ts'
import { decodeSnapshots, packRecord } from './wire.ts'

/** Keys that one SCAN visits: less than a millisecond of the node's time. */
const SCAN_COUNT = 1_000

/** Bytes of records in one call: a millisecond or two of the node's time. */
const ADOPT_MAX_BYTES = 1024 * 1024

/** A dead founder frees the nodes after this long; founding takes milliseconds. */
const FOUNDING_CLAIM_MS = 5_000

export type RedisEnrolmentOptions = SeenRun & {
  readonly name: string
  readonly client: Redis
  readonly script: Script
  readonly deadlineMs: number
  readonly clock: Clock
}

/** The arguments of the acts that carry a cluster. */
function inWords({ id, quarantineMs, members }: Cluster): readonly [string, string, string] {
  return [id, String(quarantineMs), members?.join(',') ?? '']
}

export class RedisEnrolmentNode implements MemberActs {
  readonly name: string
  readonly #options: RedisEnrolmentOptions

  constructor(options: RedisEnrolmentOptions) {
    this.name = options.name
    this.#options = options
  }

  async begin(nonce: string, origin: Origin): Promise<void> {
    await this.#act('begin', nonce, origin)
  }

  async restart(nonce: string, nextNonce: string, { rival, forgot }: WhyAnew = {}): Promise<void> {
    await this.#act('restart', nonce, nextNonce, rival ? '1' : '', forgot ? '' : '1')
  }

  save(nonce: string, { done, source, copied }: CopyProgress): Promise<boolean> {
    return this.#act(
      'save',
      nonce,
      done.join(','),
      source?.runId ?? '',
      source?.cursor ?? '0',
      String(copied),
    )
  }

  enrol(nonce: string, cluster: Cluster): Promise<boolean> {
    return this.#act('enrol', nonce, ...inWords(cluster), String(this.#options.told.known(nonce)))
  }

  claimFounding(nonce: string, proposed: string): Promise<boolean> {
    return this.#act('claim', nonce, String(FOUNDING_CLAIM_MS), proposed)
  }

  found(nonce: string, cluster: Cluster): Promise<boolean> {
    return this.#act('found', nonce, ...inWords(cluster))
  }

  async abandonFounding(nonce: string): Promise<void> {
    await this.#act('abandon', nonce)
  }

  async revoke(epoch: string, itLies = false): Promise<void> {
    await this.#act('revoke', epoch, itLies ? '1' : '')
  }

  async raise(cluster: Cluster): Promise<void> {
    await this.#act('raise', ...inWords(cluster))
  }

  declare(by: string, clusterId: string): Promise<boolean> {
    return this.#act('declare', by, clusterId)
  }

  occupy(who: string, lifetimeMs: number): Promise<boolean> {
    return this.#act('occupy', who, String(lifetimeMs))
  }

  async keys(cursor: string): Promise<{ readonly keys: readonly string[]; readonly cursor: string }> {
    const [next, keys] = await this.#timely(
      this.#options.client.scan(cursor, 'MATCH', RECORD_PATTERN, 'COUNT', SCAN_COUNT),
    )
    return { keys, cursor: next }
  }

  async inspect(keys: readonly string[], whole: boolean): Promise<Inspection> {
    const { clock, counts } = this.#options
    const [sentMonoMs, sentWallMs] = [clock.monoMs(), clock.wallMs()]
    const reply = await this.#batch(keys.map((key) => inspectFrame(key, whole)))
    const sample = { nodeMs: reply.nodeMs, sentMonoMs, receivedMonoMs: clock.monoMs() }
    // A clock that has jumped may have expired what it would show, and the epoch stays until a sidecar sees that.
    const voting = counts(sample, sentWallMs) && reply.enrolled
    return { voting, nodeMs: reply.nodeMs, snapshots: decodeSnapshots(reply) }
  }

  async adopt(nonce: string, adoptions: readonly Adoption[]): Promise<void> {
    const standing = standingFrame(nonce)
    let frames: Frame[] = []
    let bytes = 0
    const flush = async () => {
      if (frames.length === 0) return
      const reply = await this.#batch([standing, ...frames])
      const [stands, ...lines] = reply.lines
      const told = /^standing (\d+)$/.exec(stands ?? '')?.[1]
      if (told === undefined) throw new Error(`${this.name} waits under another nonce by now, or votes`)
      this.#options.told.learn(nonce, Number(told))
      // Only a failure has bytes: the node's own words.
      const words = reply.bytes.length === 0 ? '' : ` (${reply.bytes[0]})`
      for (const line of lines) {
        if (line !== 'adopted') throw new Error(`${this.name} did not take a record: ${line}${words}`)
      }
      frames = []
      bytes = 0
    }
    for (const { key, merged } of adoptions) {
      const packed = packRecord(merged.record)
      if (bytes + packed.length > ADOPT_MAX_BYTES) await flush()
      frames.push(adoptFrame(key, packed, merged.chosen, Math.max(1, merged.ttlMs)))
      bytes += packed.length
    }
    await flush()
  }

  #batch(frames: readonly Frame[]) {
    const { client, script, epoch } = this.#options
    return this.#timely(
      // No claims travel here, so the limit of a token's lead does not matter.
      callBatch(client, script, { epoch: epoch ?? NO_EPOCH, maxTokenAheadMs: 0, frames }),
    )
  }

  async #act(act: string, ...args: string[]): Promise<boolean> {
    const answer = await this.#timely(
      callMembership(this.#options.client, this.#options.runId, [act, ...args]),
    )
    return answer === 1
  }

  async #timely<T>(answer: Promise<T>): Promise<T> {
    const { clock, deadlineMs, name, sameConnection } = this.#options
    const value = await inTime(clock, deadlineMs, answer, `${name} gave no answer within ${deadlineMs} ms`)
    if (!sameConnection()) throw new Error(`the connection to ${name} was made again meanwhile`)
    return value
  }
}
