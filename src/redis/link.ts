/**
 * The port `NodeLink` over one connection to one Redis node: what the driver of the nodes asks of it (`core/nodes/node-driver.ts`), and the
 * acts of a rejoin, each for one run of the node's process.
 *
 * Owns the deadlines of these calls, storing a node's quarantine on the node, and moving records. What is read of a node is `inspection.ts`.
 * Every command that must not reach another run of the process carries its `run_id`, because the connection reconnects by itself.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import {
  INSPECT_DEADLINE_MS,
  type MemberActs,
  NO_INCARNATION,
  type NodeLink,
  type SeenRun,
} from '../core/nodes/member.ts'
import type { Adoption, Cluster, Inspection } from '../core/nodes/rejoin-rules.ts'
import { within } from '../core/retry.ts'
import { adoptFrame, callBatch, type Frame, inspectFrame, standingFrame } from './batch.ts'
import { onDown, type RedisAddress } from './connect.ts'
import { inspectNode, inTime, lightPollOf, writeHeartbeat, writeNotes } from './inspection.ts'
import { RECORD_PATTERN } from './keys.ts'
import { unreadyFault } from './node-fault.ts'
import { callMembership, type Script } from './scripts.ts'
import { decodeSnapshots, packRecord } from './wire.ts'

const SILENT_NODE = `no answer to an inspection within ${INSPECT_DEADLINE_MS} ms`

/** A late heartbeat is none: the next poll writes one. */
const HEARTBEAT_DEADLINE_MS = 1_000
const LATE_HEARTBEAT = `no heartbeat within ${HEARTBEAT_DEADLINE_MS} ms`

/** Keys that one SCAN visits: less than a millisecond of the node's time. */
const SCAN_COUNT = 1_000

/** Bytes of records in one call: a millisecond or two of the node's time. */
const ADOPT_MAX_BYTES = 1024 * 1024

/** A dead founder frees the nodes after this long; founding takes milliseconds. */
const FOUNDING_CLAIM_MS = 5_000

type Connected = {
  readonly name: string
  readonly client: Redis
  readonly script: Script
  readonly clock: Clock
}

export type RedisLinkOptions = Connected & {
  readonly address: RedisAddress
  readonly connectTimeoutMs: number
  readonly heartbeatEveryMs?: number
}

export function redisLink(options: RedisLinkOptions): NodeLink {
  const { client, address, clock, connectTimeoutMs, heartbeatEveryMs } = options
  const status = () => (client.status === 'ready' ? 'ready' : client.status === 'connect' ? 'open' : 'down')
  const soon = <T>(answer: Promise<T>) => inTime(clock, HEARTBEAT_DEADLINE_MS, answer, LATE_HEARTBEAT)

  let ending = (): void => {}
  function redial(): void {
    ending()
    client.disconnect(true)
  }

  async function answerOrRedial<T>(answer: Promise<T>): Promise<T> {
    try {
      return await inTime(clock, INSPECT_DEADLINE_MS, answer, SILENT_NODE)
    } catch (cause) {
      // Behind a path that drops packets only a new connection can tell that the path is back.
      if (cause instanceof Error && cause.message === SILENT_NODE) redial()
      throw cause
    }
  }

  return {
    get status() {
      return status()
    },
    dial: async ({ ready, down }) => {
      ending = onDown(client, address, down)
      client.on('ready', ready)
      // A suspended process accepts the connection and never gets ready.
      const readyMs = connectTimeoutMs + INSPECT_DEADLINE_MS
      await within(clock, readyMs, client.connect(), 'not ready in time').catch(() => {
        if (status() === 'open') down(unreadyFault({ tls: address.tls?.(), stream: client.stream }), false)
      })
    },
    redial,
    close: () => client.disconnect(),
    inspect: () => answerOrRedial(inspectNode(client)),
    lightPoll: () => answerOrRedial(lightPollOf(client).catch(() => undefined)),
    writeHeartbeat: (incarnation, heartbeat, counters) =>
      soon(writeHeartbeat(client, incarnation, heartbeat, counters, heartbeatEveryMs)),
    writeNotes: (incarnation, counters) => soon(writeNotes(client, incarnation, counters)),
    acts: (seen) => memberActs({ ...options, ...seen, deadlineMs: INSPECT_DEADLINE_MS }),
  }
}

/** The arguments of the acts that carry a cluster. */
function inWords({ id, quarantineMs, members }: Cluster): readonly [string, string, string] {
  return [id, String(quarantineMs), members?.join(',') ?? '']
}

export type MemberActsOptions = SeenRun & Connected & { readonly deadlineMs: number }

export function memberActs(options: MemberActsOptions): MemberActs {
  const { name, client, script, deadlineMs, clock, runId, incarnation, catchUp, counts, sameConnection } =
    options

  async function timely<T>(answer: Promise<T>): Promise<T> {
    const value = await inTime(clock, deadlineMs, answer, `${name} gave no answer within ${deadlineMs} ms`)
    if (!sameConnection()) throw new Error(`the connection to ${name} was made again meanwhile`)
    return value
  }

  const act = async (...words: [act: string, ...args: string[]]) =>
    (await timely(callMembership(client, runId, words))) === 1

  // No claims travel here, so the limit of a token's lead does not matter.
  const batch = (frames: readonly Frame[]) =>
    timely(
      callBatch(client, script, { incarnation: incarnation ?? NO_INCARNATION, maxTokenAheadMs: 0, frames }),
    )

  async function inspect(keys: readonly string[], whole: boolean): Promise<Inspection> {
    const [sentMonoMs, sentWallMs] = [clock.monoMs(), clock.wallMs()]
    const reply = await batch(keys.map((key) => inspectFrame(key, whole)))
    const sample = { nodeMs: reply.nodeMs, sentMonoMs, receivedMonoMs: clock.monoMs() }
    // A clock that has jumped may have expired what it would show, and the incarnation stays until a sidecar sees that.
    const voting = counts(sample, sentWallMs) && reply.joined
    return { voting, nodeMs: reply.nodeMs, snapshots: decodeSnapshots(reply) }
  }

  async function send(nonce: string, frames: readonly Frame[]): Promise<void> {
    const { lines, bytes } = await batch([standingFrame(nonce), ...frames])
    const [stands, ...taken] = lines
    const known = /^standing (\d+)$/.exec(stands ?? '')?.[1]
    if (known === undefined) throw new Error(`${name} waits under another nonce by now, or votes`)
    catchUp.learn(nonce, Number(known))
    // Only a failure has bytes: the node's own words.
    const words = bytes.length === 0 ? '' : ` (${bytes[0]})`
    const not = taken.find((line) => line !== 'adopted')
    if (not !== undefined) throw new Error(`${name} did not take a record: ${not}${words}`)
  }

  async function adopt(nonce: string, adoptions: readonly Adoption[]): Promise<void> {
    let frames: Frame[] = []
    let bytes = 0
    for (const { key, merged } of adoptions) {
      const packed = packRecord(merged.record)
      if (frames.length > 0 && bytes + packed.length > ADOPT_MAX_BYTES) {
        await send(nonce, frames)
        frames = []
        bytes = 0
      }
      frames.push(adoptFrame(key, packed, merged.chosen, Math.max(1, merged.ttlMs)))
      bytes += packed.length
    }
    if (frames.length > 0) await send(nonce, frames)
  }

  return {
    name,
    inspect,
    adopt,
    begin: async (nonce, origin) => void (await act('begin', nonce, origin)),
    restart: async (nonce, nextNonce, { duplicateServer, forgot } = {}) =>
      void (await act('restart', nonce, nextNonce, duplicateServer ? '1' : '', forgot ? '' : '1')),
    save: (nonce, { done, source, copied }) =>
      act('save', nonce, done.join(','), source?.runId ?? '', source?.cursor ?? '0', String(copied)),
    join: (nonce, cluster) => act('join', nonce, ...inWords(cluster), String(catchUp.known(nonce))),
    claimFounding: (nonce, proposed) => act('claim', nonce, String(FOUNDING_CLAIM_MS), proposed),
    found: (nonce, cluster) => act('found', nonce, ...inWords(cluster)),
    abandonFounding: async (nonce) => void (await act('abandon', nonce)),
    revoke: async (revoked, itLies = false) => void (await act('revoke', revoked, itLies ? '1' : '')),
    raise: async (cluster) => void (await act('raise', ...inWords(cluster))),
    declare: (by, clusterId) => act('declare', by, clusterId),
    occupy: (who, lifetimeMs) => act('occupy', who, String(lifetimeMs)),
    keys: async (cursor) => {
      const scan = client.scan(cursor, 'MATCH', RECORD_PATTERN, 'COUNT', SCAN_COUNT)
      const [next, keys] = await timely(scan)
      return { keys, cursor: next }
    },
  }
}
