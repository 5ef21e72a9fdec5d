/** Reads what a glance at a node shows (`core/nodes/glances.ts`). */

import type { Redis } from 'ioredis'
import type { Glance } from '../core/nodes/member.ts'
import { CLUSTER_KEY, EPOCH_KEY, PULSE_KEY } from './keys.ts'

/** @throws Error where the node does not answer, or refuses one of the commands */
export async function glanceAt(client: Redis): Promise<Glance> {
  const replies = await client
    .pipeline()
    .time()
    .get(EPOCH_KEY)
    .hget(CLUSTER_KEY, 'quarantine_ms')
    .hgetall(PULSE_KEY)
    .exec()
  const [time, epoch, quarantineMs, pulse] = (replies ?? []).map(([error, reply]) => {
    if (error !== null) throw error
    return reply
  })
  if (!Array.isArray(time)) throw new Error('the node does not tell its time')
  const [seconds, micros] = time.map(Number) as [number, number]
  const { run: runId, ms: pulseMs } = (pulse ?? {}) as { readonly run?: string; readonly ms?: string }
  return {
    nodeMs: seconds * 1_000 + Math.floor(micros / 1_000),
    epoch: typeof epoch === 'string' ? epoch : undefined,
    quarantineMs: typeof quarantineMs === 'string' ? Number(quarantineMs) : undefined,
    pulse: runId === undefined ? undefined : { runId, nodeMs: Number(pulseMs) },
  }
}
