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

const error = (subject: string, error: unknown): Line => ({ level: 'error', subject, error })
const warn = (subject: string, error?: unknown): Line => ({ level: 'warn', subject, error })

/** undefined for what is no trouble, or is told by another event as well. */
function lineOf(event: SagaEvent): Line | undefined {
  switch (event.kind) {
    case 'relay_error':
      return error(`relay ${event.relayId}`, event.error)
    case 'consumer_error':
      return error(`consumer ${event.consumerId}`, event.error)
    case 'saga_error':
      return error('sagas', event.error)
    case 'housekeeping_error':
      return error('housekeeping', event.error)
    case 'housekept':
      if (event.expired === 0) return undefined
      return warn(`${event.expired} dead letters expired and were discarded`)
    case 'parked':
      return error(`${event.what} waits for a person`, event.error)
    case 'pool_error':
      return warn('an idle connection to PostgreSQL broke', event.error)
    case 'publish_failed':
      return warn(`a message for ${event.destination} was not sent`, event.error)
    case 'unhandled':
      if (event.outcome === 'dead_letter') return undefined
      return warn(
        `consumer ${event.consumerId}: message ${event.messageId} was ${event.outcome}`,
        event.error,
      )
    case 'consumed': {
      const what = troubleOf(event)
      return what === undefined ? undefined : warn(`consumer ${event.consumerId}: ${what}`, event.error)
    }
    case 'saga_step_failed':
      return warn(`saga ${event.sagaId}, step ${event.step}`, event.error)
    case 'lock_release_failed':
    case 'lock_renewal_failed':
      return warn(`${event.kind.replaceAll('_', ' ')}: ${event.resources.join(', ')}`, event.error)
    case 'fenced_out':
      return warn(`${event.what} was taken over by a newer holder`)
    default:
      return undefined
  }
}

function troubleOf({ type, outcome, error }: Extract<SagaEvent, { kind: 'consumed' }>): string | undefined {
  if (outcome === 'retry') return `a handler of ${type} failed`
  if (outcome !== 'defer') return undefined
  if (isOutage(error)) return `a message of ${type} waits for the database`
  const isWithoutLocks = error instanceof LockNotAcquiredError && error.cause !== undefined
  return isWithoutLocks ? `a message of ${type} waits for its locks` : undefined
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
