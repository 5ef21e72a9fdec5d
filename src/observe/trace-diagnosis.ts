/**
 * What OpenTelemetry's SDK says about itself, as lines of our log: that spans could not be sent, that a variable has no sense.
 *
 * Owns how often. The SDK reports each batch that failed, several a second where the collector refuses them at once. A sentence is
 * written at once, and again at most once a minute for as long as it holds. By itself the SDK says nothing, or, with
 * `OTEL_LOG_LEVEL`, in lines that are no JSON.
 */

import { type DiagLogger, DiagLogLevel, diag } from '@opentelemetry/api'
import type { Logger } from 'pino'
import { errorText } from '../core/fault.ts'

const AGAIN_AFTER_MS = 60_000
/** Kinds of sentences whose time is known; beyond it the oldest is forgotten, and may be written sooner. */
const KNOWN_MAX = 100
/** Characters of what is not the SDK's own sentence. */
const DETAILS_MAX = 300

/** What a user name and a password may stand in. */
const CREDENTIALS = /\/\/[^/@\s'"]*@/g

/** The SDK does not say which status it got, and says it after some ten seconds of trying. */
const NOT_NOW = 'Export failed with retryable status'
const NOT_NOW_EXPLAINED =
  'the collector answered each try of ten seconds with 429, 502, 503 or 504: it takes no more spans now, or is not there behind its load balancer'

export type Diagnosis = DiagLogger & {
  /** The SDK could not begin. */
  refused(cause: unknown): void
}

export function diagnosisTo(log: Pick<Logger, 'warn' | 'debug'>, monoMs: () => number): Diagnosis {
  const known = new Map<string, { atMs: number; repeated: number }>()

  function say(sentence: string, error?: string): void {
    const text = error === undefined ? sentence : `${sentence}: ${error}`
    const kind = text.replace(/\d+/g, '')
    const before = known.get(kind)
    if (before !== undefined && monoMs() - before.atMs < AGAIN_AFTER_MS) {
      before.repeated += 1
      return
    }
    known.delete(kind)
    known.set(kind, { atMs: monoMs(), repeated: 0 })
    if (known.size > KNOWN_MAX) known.delete(known.keys().next().value as string)
    log.warn(
      {
        event: 'tracing',
        ...(error === undefined ? {} : { error }),
        ...(before === undefined || before.repeated === 0 ? {} : { repeated: before.repeated }),
      },
      text,
    )
  }

  const hidden = (message: string) => log.debug({ event: 'tracing' }, withoutCredentials(message))
  return {
    // The SDK's handler of errors writes an exception as JSON.
    error: (message) => say('spans were not sent to the collector', withoutCredentials(reasonIn(message))),
    warn: (message, ...details) =>
      say(`OpenTelemetry: ${withoutCredentials(`${message} ${wordsOf(details)}`.trim())}`),
    info: hidden,
    debug: hidden,
    verbose: () => {},
    refused: (cause) =>
      say(
        'OpenTelemetry refuses its variables (OTEL_EXPORTER_OTLP_ENDPOINT and others)',
        withoutCredentials(errorText(cause)),
      ),
  }
}

/** The SDK speaks through it from now on, in place of the console. */
export function speakThrough(diagnosis: DiagLogger, debug: boolean): void {
  diag.setLogger(diagnosis, {
    logLevel: debug ? DiagLogLevel.DEBUG : DiagLogLevel.WARN,
    suppressOverrideMessage: true,
  })
}

/** What the SDK says behind its sentence: the answer of a collector that took a part, an error; bytes are left out. */
function wordsOf(details: readonly unknown[]): string {
  return details
    .map((detail) => (detail instanceof Error ? detail.message : detail))
    .filter((words) => typeof words === 'string')
    .join(' ')
    .slice(0, DETAILS_MAX)
}

function reasonIn(message: string): string {
  let error: { readonly message?: string; readonly code?: string }
  try {
    error = JSON.parse(message)
  } catch {
    return message
  }
  const { message: said = '', code } = error
  if (said === NOT_NOW) return NOT_NOW_EXPLAINED
  // An address that stands for several has no message of its own; a status is in the code alone.
  if (code === undefined || said.includes(code)) return said
  return said === '' ? code : `${said} (${code})`
}

function withoutCredentials(text: string): string {
  return text.replace(CREDENTIALS, '//…@')
}
