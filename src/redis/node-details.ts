/** What `fencepost doctor` reads of one node besides its vote. Source: redis.io, INFO and TIME. */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import type { NodeDetails } from '../core/health/checkup.ts'
import { offsetOf } from '../core/nodes/clock-samples.ts'
import { inTime } from './in-time.ts'

/** An operator waits for it; a suspended node must not hold it up. */
const WITHIN_MS = 2_000

/** Undefined where it does not answer in time. */
export async function readNodeDetails(client: Redis, clock: Clock): Promise<NodeDetails | undefined> {
  if (client.status !== 'ready') return undefined
  const late = `no answer within ${WITHIN_MS} ms`
  try {
    const info = await inTime(clock, WITHIN_MS, client.info(), late)
    const [sentWallMs, sentMonoMs] = [clock.wallMs(), clock.monoMs()]
    const [seconds, micros] = await inTime(clock, WITHIN_MS, client.time(), late)
    const nodeMs = Number(seconds) * 1_000 + Number(micros) / 1_000
    const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? ''
    const number = (name: string) => Number(field(name) || 0)
    return {
      version: field('redis_version'),
      evictionPolicy: field('maxmemory_policy'),
      appendOnly: field('aof_enabled') === '1',
      appendOnlyOk: field('aof_last_write_status') === 'ok',
      usedBytes: Math.max(0, number('used_memory') - number('mem_not_counted_for_evict')),
      limitBytes: number('maxmemory'),
      meanLeftMs: Number(/^db\d+:.*avg_ttl=(\d+)/m.exec(info)?.[1] ?? 0),
      clock: offsetOf(nodeMs, sentWallMs, clock.monoMs() - sentMonoMs),
      certificateUntilMs: certificateOf(client),
    }
  } catch {
    return undefined
  }
}

function certificateOf({ stream }: Redis): number | undefined {
  const of = stream as { getPeerCertificate?: () => { valid_to?: string } }
  const until = of.getPeerCertificate?.().valid_to
  return until === undefined ? undefined : Date.parse(until)
}
