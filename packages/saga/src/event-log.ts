/**
 * Errors and warnings of the kit on the console: what a kit without `events` does, so that none of them is silent.
 *
 * Owns which events are written and in what words. An event that repeats is written once a minute, with how often it came
 * meanwhile: a relay without a database fails ten times a second.
 */
import type { Clock } from './core.ts'
import { isOutage } from './database.ts'
import { errorText } from './error-meaning.ts'
import { LockNotAcquiredError } from './errors.ts'
import type { SagaEvent, SagaEvents } from './events.ts'

export type Log = { error(text: string): void; warn(text: string): void }

const repeatMs = 60_000

/** Distinct events that are remembered; beyond them every one is written. */
const rememberedMax = 1_000

export function eventLog(clock: Pick<Clock, 'monoMs'>, log: Log = console): SagaEvents {
  const written = new Map<string, { sinceMonoMs: number; repeated: number }>()
  return (event) => {
    const line = lineOf(event)
    if (line === undefined) return
    const { level, subject, error } = line
    const why = error === undefined ? '' : `: ${reasonOf(error)}`
    // Not by subject: a thousand messages fail for one reason.
    const key = `${event.kind}${why}`
    const before = written.get(key)
    const nowMonoMs = clock.monoMs()
    if (before !== undefined && nowMonoMs - before.sinceMonoMs < repeatMs) {
      before.repeated += 1
      return
    }
    const times = before === undefined || before.repeated === 0 ? '' : ` (and ${before.repeated} times since)`
    if (written.size >= rememberedMax) written.clear()
    written.set(key, { sinceMonoMs: nowMonoMs, repeated: 0 })
    log[level](`fencepost saga: ${subject}${why}${times}`)
  }
}

/** For what a subscriber of events throws, in the same manner: it must be seen, and once a minute is enough. */
export function subscriberFaults(clock: Pick<Clock, 'monoMs'>, log: Log = console): (error: unknown) => void {
  let quietUntilMonoMs = Number.NEGATIVE_INFINITY
  return (error) => {
    const nowMonoMs = clock.monoMs()
    if (nowMonoMs < quietUntilMonoMs) return
    quietUntilMonoMs = nowMonoMs + repeatMs
    log.error(`fencepost saga: a subscriber of events threw: ${reasonOf(error)}`)
  }
}

type Line = { readonly level: keyof Log; readonly subject: string; readonly error?: unknown }

/** undefined for what is no trouble, or is told by another event as well. */
function lineOf(event: SagaEvent): Line | undefined {
  switch (event.kind) {
    case 'relay_error':
      return { level: 'error', subject: `relay ${event.relayId}`, error: event.error }
    case 'consumer_error':
      return { level: 'error', subject: `consumer ${event.consumerId}`, error: event.error }
    case 'saga_error':
      return { level: 'error', subject: 'sagas', error: event.error }
    case 'housekeeping_error':
      return { level: 'error', subject: 'housekeeping', error: event.error }
    case 'housekept':
      if (event.expired === 0) return undefined
      return { level: 'warn', subject: `${event.expired} dead letters expired and were discarded` }
    case 'parked':
      return { level: 'error', subject: `${event.what} waits for a person`, error: event.error }
    case 'pool_error':
      return { level: 'warn', subject: 'an idle connection to PostgreSQL broke', error: event.error }
    case 'publish_failed':
      return { level: 'warn', subject: `a message for ${event.destination} was not sent`, error: event.error }
    case 'unhandled':
      if (event.outcome === 'dead_letter') return undefined
      return {
        level: 'warn',
        subject: `consumer ${event.consumerId}: message ${event.messageId} was ${event.outcome}`,
        error: event.error,
      }
    case 'consumed':
      if (event.outcome === 'defer' && isOutage(event.error))
        return {
          level: 'warn',
          subject: `consumer ${event.consumerId}: a message of ${event.type} waits for the database`,
          error: event.error,
        }
      if (
        event.outcome === 'defer' &&
        event.error instanceof LockNotAcquiredError &&
        event.error.cause !== undefined
      )
        return {
          level: 'warn',
          subject: `consumer ${event.consumerId}: a message of ${event.type} waits for its locks`,
          error: event.error,
        }
      if (event.outcome !== 'retry') return undefined
      return {
        level: 'warn',
        subject: `consumer ${event.consumerId}: a handler of ${event.type} failed`,
        error: event.error,
      }
    case 'saga_step_failed':
      return { level: 'warn', subject: `saga ${event.sagaId}, step ${event.step}`, error: event.error }
    case 'lock_release_failed':
    case 'lock_renewal_failed':
      return {
        level: 'warn',
        subject: `${event.kind.replaceAll('_', ' ')}: ${event.resources.join(', ')}`,
        error: event.error,
      }
    case 'fenced_out':
      return { level: 'warn', subject: `${event.what} was taken over by a newer holder` }
    default:
      return undefined
  }
}

/** The error and up to three causes, which say what the client library or the server said. */
function reasonOf(error: unknown): string {
  const reasons: string[] = []
  let one: unknown = error
  while (one !== undefined && one !== null && reasons.length < 4) {
    reasons.push(errorText(one))
    one = (one as { cause?: unknown }).cause
  }
  return [...new Set(reasons)].join(', because ')
}
