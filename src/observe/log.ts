/**
 * The log: JSON lines on standard output, one a decision at info, the rest where something is out of the ordinary.
 *
 * Owns how many lines are written: decisions that went well are the only ones that come by the thousand, so they alone are
 * limited to so many a second, what was left out is counted, and a line says how many. Lines carry hashes and tokens;
 * headers and bodies of clients are in no event and so in no line, and their keys only where the configuration asks for it.
 */

import { type DestinationStream, type Logger, pino } from 'pino'
import { lockIdOf } from '../core/claims/lease.ts'
import type { CoreEvent, DecidedEvent } from '../core/events.ts'
import type { Subscriber } from './fan-out.ts'
import { lineOf } from './log-lines.ts'

export type LogOptions = {
  readonly level: string
  /** Which sidecar writes. */
  readonly instance: string
  readonly destination: DestinationStream
}

export function createLog({ level, instance, destination }: LogOptions): Logger {
  return pino(
    {
      level,
      base: { client_id: instance },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      messageKey: 'message',
    },
    destination,
  )
}

export type EventLogOptions = {
  readonly nodeCount: number
  /** Most lines a second about decisions that went well. */
  readonly decisionsPerSecond: number
  readonly monoMs: () => number
  readonly onDropped: () => void
  /** Of the span that is active, where it is recorded. */
  readonly trace: () => { readonly traceId: string; readonly spanId: string } | undefined
}

/** What earlier events told of a claim whose decision is yet to come. */
type Known = { answered?: number; remainingMs?: number }
/** Claims under way; beyond it the oldest is decided without these fields. */
const KNOWN_MAX = 10_000

/** The subscriber that writes lines for events. */
export function logEvents(log: Logger, options: EventLogOptions): Subscriber {
  const known = new Map<string, Known>()
  const admits = createSampler(log, options)

  function remember(lockId: string, fact: Known): void {
    known.set(lockId, { ...known.get(lockId), ...fact })
    if (known.size > KNOWN_MAX) known.delete(known.keys().next().value as string)
  }

  /** Fields that the decision itself does not carry. */
  function fromEarlier(event: CoreEvent) {
    if (event.kind !== 'decided' || event.lockId === undefined) return {}
    const { answered, remainingMs } = known.get(event.lockId) ?? {}
    known.delete(event.lockId)
    return {
      ...(answered === undefined
        ? {}
        : { quorum_nodes: `${answered}/${options.nodeCount}`, nodes_reached: answered }),
      ...(remainingMs === undefined ? {} : { lease_remaining_ms: Math.round(remainingMs) }),
    }
  }

  return (event) => {
    if (event.kind === 'claim_ended' && event.token !== undefined && event.answered !== undefined)
      remember(lockIdOf({ key: event.recordKey, token: event.token }), { answered: event.answered })
    if (event.kind === 'lease_ended')
      remember(lockIdOf({ key: event.recordKey, token: event.token }), { remainingMs: event.remainingMs })
    const { level, message, fields } = lineOf(event) ?? {}
    if (level === undefined || !log.isLevelEnabled(level)) return
    const earlier = fromEarlier(event)
    if (event.kind === 'decided' && wentWell(event) && !admits()) return
    const trace = options.trace()
    const ids = trace === undefined ? {} : { trace_id: trace.traceId, span_id: trace.spanId }
    log[level]({ event: event.kind, ...fields, ...earlier, ...ids }, message)
  }
}

/** What went wrong is always written. */
function wentWell({ status, decision }: DecidedEvent): boolean {
  return status < 500 && decision !== 'fail_open'
}

/** So many a second are admitted; when the next second begins a line says how many were not. */
function createSampler(log: Logger, { decisionsPerSecond, monoMs, onDropped }: EventLogOptions) {
  let second = 0
  let written = 0
  let dropped = 0
  return (): boolean => {
    const now = Math.floor(monoMs() / 1_000)
    if (now !== second) {
      if (dropped > 0)
        log.info({ event: 'lines_dropped', dropped }, `${dropped} lines about decisions were left out`)
      second = now
      written = 0
      dropped = 0
    }
    written += 1
    if (written <= decisionsPerSecond) return true
    dropped += 1
    onDropped()
    return false
  }
}
