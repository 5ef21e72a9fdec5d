/**
 * What must be true around the requests: answers in time, logs without secrets, nodes without leftovers, processes alive.
 */

import type { Redis } from 'ioredis'
import { CANARIES } from '../clients.ts'
import type { Operation } from '../history.ts'
import type { Exit } from '../stage.ts'
import type { Violation } from './violation.ts'

/** L2, also for operations that timed out or were reset. */
export function checkAnswerTimes(operations: readonly Operation[], withinMs: number): readonly Violation[] {
  return operations.flatMap((one): Violation[] => {
    const tookMs = one.endMs - one.startMs
    if (tookMs <= withinMs) return []
    return [
      {
        checker: 'answer-time',
        key: one.key,
        detail: `#${one.op} ${one.f} took ${tookMs.toFixed(0)} ms of ${withinMs}`,
      },
    ]
  })
}

const FAILURES =
  /unhandled ?(promise ?)?rejection|uncaught|"level":"fatal"|"level":60|TypeError|RangeError|ERR_UNHANDLED|internal-error/i

/** S15, and that the logs show no unexpected failure. */
export function checkLogs(logs: readonly string[], keys: readonly string[]): readonly Violation[] {
  const canaries = [...Object.values(CANARIES), ...keys]
  return logs.flatMap((log, index): Violation[] => {
    const key = `sidecar-${index}`
    const leaked = canaries.filter((canary) => log.includes(canary))
    const failure = log.split('\n').find((line) => FAILURES.test(line))
    return [
      ...leaked.slice(0, 3).map((canary) => ({ checker: 'log-scan', key, detail: `the log says ${canary}` })),
      ...(failure === undefined ? [] : [{ checker: 'log-scan', key, detail: failure.slice(0, 300) }]),
    ]
  })
}

export function checkExits(exits: readonly Exit[]): readonly Violation[] {
  return exits
    .filter(({ expected }) => !expected)
    .map(({ process, how }) => ({ checker: 'process-exit', key: process, detail: `ended by itself: ${how}` }))
}

/** Records of requests and reservations; the sidecars' own keys (`dedup:%`) may stay. */
const RECORD = /^dedup:[^:%]/

/** L5: no record on a node stays for longer than the longest retention. */
export async function auditNodes(nodes: readonly Redis[], ttlMsMax: number): Promise<readonly Violation[]> {
  const found = await Promise.all(
    nodes.map(async (node, index) => {
      const violations: Violation[] = []
      let cursor = '0'
      do {
        const [next, keys] = await node.scan(cursor, 'COUNT', 1_000)
        cursor = next
        const records = keys.filter((key) => RECORD.test(key))
        const ttls = await Promise.all(records.map((key) => node.pttl(key)))
        for (const [at, ttlMs] of ttls.entries()) {
          if (ttlMs === -2 || (ttlMs >= 0 && ttlMs <= ttlMsMax)) continue
          violations.push({
            checker: 'redis-audit',
            key: `redis-${index}`,
            detail: `${records[at]} has a TTL of ${ttlMs} ms`,
          })
        }
      } while (cursor !== '0')
      return violations
    }),
  )
  return found.flat()
}
