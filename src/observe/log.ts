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
import type { Token } from '../core/record/token.ts'
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
      serializers: { err: errorFields },
    },
    destination,
  )
}

/**
 * Of an error that an adapter has told in its own words. Not its other properties, which is what pino would add: those of a
 * database client hold its commands.
 */
function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error }
  const { name: type, message, stack } = error
  return { type, message, stack }
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
type Known = { readonly recordKey: string; readonly answered: number; remainingMs: number | undefined }
/** Claims under way; beyond it the oldest is decided without these fields. */
const KNOWN_MAX = 10_000

/** The subscriber that writes lines for events. What is not written costs no more than finding that out. */
export function logEvents(log: Logger, options: EventLogOptions): Subscriber {
  /** By token, a number: a name built of key and token for each claim would be for nothing most of the time. */
  const known = new Map<Token, Known>()
  const admits = createSampler(log, options)

  function remember({ token, answered, recordKey }: Extract<CoreEvent, { kind: 'claim_ended' }>): void {
    // A reservation of several records is called by its first.
    if (token === undefined || answered === undefined || known.has(token)) return
    known.set(token, { recordKey, answered, remainingMs: undefined })
    if (known.size > KNOWN_MAX) known.delete(known.keys().next().value as Token)
  }

  /** Fields that the decision itself does not carry. */
  function fromEarlier({ token, lockId }: DecidedEvent) {
    const of = token === undefined ? undefined : known.get(token)
    if (of === undefined || token === undefined || lockIdOf({ key: of.recordKey, token }) !== lockId)
      return {}
    const { answered, remainingMs } = of
    return {
      quorum_nodes: `${answered}/${options.nodeCount}`,
      nodes_reached: answered,
      ...(remainingMs === undefined ? {} : { lease_remaining_ms: Math.round(remainingMs) }),
    }
  }

  function write(event: CoreEvent, earlier: object): void {
    const { level, message, fields } = lineOf(event) ?? {}
    if (level === undefined || !log.isLevelEnabled(level)) return
    const trace = options.trace()
    const ids = trace === undefined ? {} : { trace_id: trace.traceId, span_id: trace.spanId }
    log[level]({ event: event.kind, ...fields, ...earlier, ...ids }, message)
  }

  function decided(event: DecidedEvent): void {
    if (log.isLevelEnabled('info') && (!wentWell(event) || admits())) write(event, fromEarlier(event))
    if (event.token !== undefined) known.delete(event.token)
  }

  return (event) => {
    switch (event.kind) {
      case 'node_answered':
        // An answer is no line, and its absence one for looking closely.
        if (event.answer === 'unreachable' && log.isLevelEnabled('debug')) write(event, {})
        return
      case 'claim_ended':
        remember(event)
        return
      case 'decided':
        decided(event)
        return
      case 'lease_ended': {
        const of = known.get(event.token)
        if (of?.recordKey === event.recordKey) of.remainingMs = event.remainingMs
        write(event, {})
        return
      }
      default:
        write(event, {})
    }
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
