/**
 * The log: JSON lines on standard output, one per decision at info, others for what is out of the ordinary.
 *
 * Owns how many lines are written: only successful decisions come by the thousand, so only they have a limit per
 * second; omitted ones are counted, and a line states their number. Lines contain hashes and tokens; no event, and so
 * no line, has headers or bodies of clients, and clients' keys only if configured. A log that nobody takes costs lines, and neither a request
 * nor the process nor its memory: the disk of a file may be full, and the reader of a pipe may stand still.
 */

import { type Logger, pino } from 'pino'
import { lockIdOf } from '../core/claims/lease.ts'
import type { DecidedEvent } from '../core/decision.ts'
import type { CoreEvent, Events } from '../core/events.ts'
import type { Token } from '../core/record/token.ts'
import { ShortLivedMap } from '../core/short-lived.ts'
import { isUnusable, lineOf, reached } from './log-lines.ts'

type LogOptions = {
  readonly level: string
  /** The sidecar that writes. */
  readonly instance: string
  readonly target: LogTarget
  /** Of each line that the target did not take. */
  readonly onLost: () => void
}

export function createLog({ level, instance, target, onLost }: LogOptions): Logger {
  const output = createLogOutput(target, {
    onLost,
    onTakenAgain: (lost) =>
      log.warn(
        { event: 'lines_lost', lost },
        `${lost} lines were lost, because standard output did not take them: its disk is full, or its reader stands still`,
      ),
  })
  const log: Logger = pino(
    {
      level,
      base: { client_id: instance },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      messageKey: 'message',
      serializers: { err: errorFields },
    },
    output,
  )
  return log
}

/**
 * The fields of an error in an adapter's own words. Without its other properties, which pino would add: a database
 * client's error contains its commands.
 */
function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error }
  const { name: type, message, stack } = error
  return { type, message, stack }
}

type EventLogOptions = {
  readonly nodeCount: number
  /** Most lines per second about successful decisions. */
  readonly decisionsPerSecond: number
  readonly monoMs: () => number
  readonly onDropped: () => void
  /** The active span, if it is recorded. */
  readonly trace: () => { readonly traceId: string; readonly spanId: string } | undefined
}

/** What earlier events said about a claim that has no decision yet. */
type Known = { readonly recordKey: string; readonly answered: number; remainingMs: number | undefined }
/** Claims without a decision; beyond the limit the oldest one is logged without these fields. */
const KNOWN_MAX = 10_000

/** Between two lines about answers of one node that can't be used. */
const UNUSABLE_EVERY_MS = 10_000

/** The subscriber that writes lines for events. An event without a line costs only that check. */
export function logEvents(log: Logger, options: EventLogOptions): Events['publish'] {
  /** By token, a number: building a key of record key and token for each claim would mostly be wasted. */
  const known = new ShortLivedMap<Token, Known>()
  const admits = createSampler(log, options)

  function remember({ token, answered, recordKey }: Extract<CoreEvent, { kind: 'claim_ended' }>): void {
    // A reservation of several records is identified by its first.
    if (token === undefined || answered === undefined || known.get(token) !== undefined) return
    known.set(token, { recordKey, answered, remainingMs: undefined })
    if (known.size > KNOWN_MAX) known.delete(known.oldestKey as Token)
  }

  const reportedMonoMs = new Map<string, number>()
  function isNews(node: string): boolean {
    const nowMonoMs = options.monoMs()
    if (nowMonoMs - (reportedMonoMs.get(node) ?? Number.NEGATIVE_INFINITY) < UNUSABLE_EVERY_MS) return false
    reportedMonoMs.set(node, nowMonoMs)
    return true
  }

  /** Fields that the decision itself does not have. */
  function fromEarlier({ token, lockId }: DecidedEvent) {
    const of = token === undefined ? undefined : known.get(token)
    if (of === undefined || token === undefined || lockIdOf({ key: of.recordKey, token }) !== lockId)
      return {}
    const { answered, remainingMs } = of
    return {
      ...reached(answered, options.nodeCount),
      ...(remainingMs === undefined ? {} : { lease_remaining_ms: Math.round(remainingMs) }),
    }
  }

  function write(event: CoreEvent, earlier: object): void {
    const line = lineOf(event, options.nodeCount)
    if (line === undefined || !log.isLevelEnabled(line.level)) return
    const trace = options.trace()
    const ids = trace === undefined ? {} : { trace_id: trace.traceId, span_id: trace.spanId }
    const fields = typeof line.fields === 'function' ? line.fields() : line.fields
    log[line.level]({ event: event.kind, ...fields, ...earlier, ...ids }, line.message)
  }

  function decided(event: DecidedEvent): void {
    if (log.isLevelEnabled('info') && (!wentWell(event) || admits())) write(event, fromEarlier(event))
    if (event.token !== undefined) known.delete(event.token)
  }

  return (event) => {
    switch (event.kind) {
      case 'node_answered':
        // A reply is no line, a missing reply is one for debugging, and one that can't be used is news of its node.
        if (event.answer !== 'unreachable') return
        if (log.isLevelEnabled('debug') || (isUnusable(event) && isNews(event.node))) write(event, {})
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

/** Failures are always logged. */
function wentWell({ status, decision }: DecidedEvent): boolean {
  return status < 500 && decision !== 'fail_open'
}

/** Admits this many per second; the first call of the next second logs how many it dropped. */
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

export type LogTarget = {
  /** @throws where this line was not taken; the next one may be */
  write(line: string): unknown
  /** What a reader has not taken yet; undefined where nothing waits. */
  readonly writableLength?: number
  /** Whether it is over for good. */
  readonly destroyed?: boolean
}

/** Some two thousand lines: more than a reader that lives falls behind, and little beside the memory of a container. */
const WAITING_BYTES_MAX = 1024 * 1024

type LogOutputOptions = {
  /** Of each line that was not taken. */
  readonly onLost: () => void
  /** After the first line that was taken again: so many before it were not. */
  readonly onTakenAgain: (lost: number) => void
}

function createLogOutput(target: LogTarget, { onLost, onTakenAgain }: LogOutputOptions) {
  let lost = 0

  function isTaken(line: string): boolean {
    // Once lines were lost the reader has to catch up first: else every second line would say that one was lost.
    const most = lost > 0 ? WAITING_BYTES_MAX / 2 : WAITING_BYTES_MAX
    if (target.destroyed === true || (target.writableLength ?? 0) > most) return false
    try {
      target.write(line)
      return true
    } catch {
      // There is no log to say it in; the number of lost lines says it later.
      return false
    }
  }

  function write(line: string): void {
    if (!isTaken(line)) {
      lost += 1
      onLost()
      return
    }
    if (lost === 0) return
    const before = lost
    lost = 0
    // It writes a line itself; where that one is lost, all of them are still to be told.
    onTakenAgain(before)
    if (lost > 0) lost += before
  }

  return { write }
}
