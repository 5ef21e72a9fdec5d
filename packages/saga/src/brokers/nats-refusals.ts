/**
 * What NATS says about a message or a declaration, and what its silence says: whose fault it is.
 *
 * A subject without a stream and a stream without a leader (an election, a lost majority, a server that is down) look the same to
 * who publishes: nobody responds. So the API is asked whether there is such a stream, and only its "no" refuses the message.
 *
 * Source: NATS documentation, JetStream; nats-server, `server/errors.json`.
 */
import { errorText } from '../error-meaning.ts'
import {
  BrokerDeclarationRefusedError,
  BrokerUnavailableError,
  PublishDeferredError,
  PublishRefusedError,
} from '../errors.ts'
import { noRoomDelayMs } from '../messages.ts'

const nameOf = (error: unknown) => String((error as { name?: unknown } | null)?.name)

/** The client's name for "nobody responds". */
const isWithoutResponder = (error: unknown) => nameOf(error) === 'JetStreamNotEnabled'

/** The client parses what replied as JSON, and reads its members: a plain subscriber or a service has replied. */
const isNoConfirm = (error: unknown) => ['SyntaxError', 'TypeError', 'JetStreamError'].includes(nameOf(error))

/** The client wraps it in an error of the request. */
const isForbidden = (error: unknown) =>
  [error, (error as { cause?: unknown } | null)?.cause].some(
    (one) => nameOf(one) === 'PermissionViolationError',
  )

type Sent = {
  readonly subject: string
  /** Asks the server for the stream of the subject. */
  readonly lookUp: () => Promise<void>
  /** Whether the message was sent over the connection that there is now. */
  readonly isSameConnection: () => boolean
}

/** What an error of a publish says. */
export async function faultOf(error: unknown, { subject, lookUp, isSameConnection }: Sent): Promise<Error> {
  if (nameOf(error) === 'TimeoutError' || isWithoutResponder(error) || isNoConfirm(error)) {
    const stream = await found(lookUp)
    if (stream === 'absent')
      return new PublishRefusedError(`no stream takes the subject ${subject}`, { cause: error })
    // The answer was lost with its connection: that says nothing about the stream.
    const isLost = stream === 'present' && !isSameConnection()
    if (!isNoConfirm(error)) return unanswered(error, isLost ? 'unknown' : stream, subject)
  }
  return translated(error, subject)
}

type Found = 'present' | 'absent' | 'forbidden' | 'unknown'

/** Absent only if the server says so: its silence is no answer, and neither is that the user may not ask. */
async function found(lookUp: () => Promise<void>): Promise<Found> {
  try {
    await lookUp()
    return 'present'
  } catch (error) {
    if (nameOf(error) === 'StreamNotFoundError') return 'absent'
    return isForbidden(error) ? 'forbidden' : 'unknown'
  }
}

/** Where the API answers it is this stream alone, and others go on. */
function unanswered(cause: unknown, stream: Found, subject: string): Error {
  if (stream === 'present')
    return new PublishDeferredError(
      `the stream of ${subject} does not answer: it has no leader, or no majority, now`,
      noRoomDelayMs,
      { cause },
    )
  if (stream === 'forbidden' && isWithoutResponder(cause))
    return new PublishDeferredError(
      `no stream answers for ${subject}: it has no leader now, or there is none, which the user may not ask (STREAM.NAMES)`,
      noRoomDelayMs,
      { cause },
    )
  return isWithoutResponder(cause)
    ? jetStreamAway(cause)
    : new BrokerUnavailableError('NATS did not answer', { cause })
}

const jetStreamAway = (cause: unknown) =>
  new BrokerUnavailableError('JetStream did not answer: it is not enabled, or its servers have no majority', {
    cause,
  })

/**
 * The message's fault: an error that the stream replied (but that it has no room), what the client refuses to send, such as too
 * large a message, a subject that the user may not publish to, and a reply that no stream makes. Everything about connections and time is the broker's fault.
 */
function translated(error: unknown, subject: string): Error {
  if (hasNoRoom(error))
    return new PublishDeferredError(
      `the stream of ${subject} takes the message later: ${errorText(error)}`,
      noRoomDelayMs,
      { cause: error },
    )
  const refused = ['JetStreamApiError', 'InvalidArgumentError', 'InvalidSubjectError'].includes(nameOf(error))
  if (refused || isNoConfirm(error) || isForbidden(error))
    return new PublishRefusedError(`NATS refused a message for ${subject}: ${errorText(error)}`, {
      cause: error,
    })
  return new BrokerUnavailableError('NATS did not answer', { cause: error })
}

/** The account has no storage left; a message with this id is being stored. */
const passingCodes: readonly unknown[] = [10002, 10158]

/**
 * 5xx: the stream is full (`discard: new`), out of storage, or has no leader; 429: it gets more than it can take. What is wrong with
 * a message is another 4xx, and two of those are not.
 */
function hasNoRoom(error: unknown): boolean {
  const { status, code } = (error ?? {}) as { status?: unknown; code?: unknown }
  return (
    isPassing(error) ||
    (nameOf(error) === 'JetStreamApiError' && (status === 429 || passingCodes.includes(code)))
  )
}

function isPassing(error: unknown): boolean {
  return nameOf(error) === 'JetStreamApiError' && Number((error as { status?: unknown }).status) >= 500
}

/** The server answers, and has no such consumer or stream any more. */
export function isGone(error: unknown): boolean {
  return ['ConsumerNotFoundError', 'StreamNotFoundError'].includes(nameOf(error))
}

/**
 * The server, or the client for it, refuses the stream or the consumer as it is declared here: it is not out of reach. With a 5xx it
 * refuses nothing: it cannot do it now.
 */
export function declarationRefusal(
  { stream, durable }: { readonly stream: string; readonly durable: string },
  error: unknown,
): Error | undefined {
  if (isWithoutResponder(error)) return jetStreamAway(error)
  if (isPassing(error))
    return new BrokerUnavailableError(
      `NATS cannot declare the consumer ${durable} of the stream ${stream} now (${errorText(error)})`,
      { cause: error },
    )
  if (!declarationErrors.includes(nameOf(error))) return undefined
  return new BrokerDeclarationRefusedError(
    `NATS refuses the consumer ${durable} of the stream ${stream} (${errorText(error)}); create the stream, or name its subjects, which no other stream may have`,
    { cause: error },
  )
}

const declarationErrors = [
  'JetStreamApiError',
  'StreamNotFoundError',
  'InvalidArgumentError',
  'InvalidNameError',
]
