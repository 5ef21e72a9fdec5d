/**
 * One connection to a name with several addresses, within one deadline: Happy Eyeballs (RFC 8305).
 *
 * Node gives each address a quarter of a second or more and then gives it up, which is longer than all of our deadline. Here every address is
 * begun within the first half of the deadline, none is given up before its end, and the first that connects is used; with TLS, the first whose
 * handshake is over. One that fails begins the next at once.
 *
 * Owns the race. Which addresses there are, and in which order, is the connector's.
 */

import type { Socket } from 'node:net'

/** RFC 8305, section 5: closer together they would be a flood. */
const ATTEMPT_DELAY_MIN_MS = 10

/** `stream` is connected, or destroyed; then `error` says why, unless the dial was given up. */
export type Dialled<A> = {
  readonly stream?: Socket | undefined
  readonly address?: A | undefined
  readonly error?: NodeJS.ErrnoException
}

const reached = new WeakSet<Socket>()

/** Whether the other side accepted the connection, whatever came of it. */
export function wasReached(stream: Socket): boolean {
  return reached.has(stream)
}

export type Race<A> = {
  /** Begins one attempt. */
  readonly attempt: (address: A) => Socket
  /** What it is connected with. */
  readonly event: 'connect' | 'secureConnect'
  /** Of the whole dial. */
  readonly deadlineMs: number
  /** Ends the race; its reason is the error. */
  readonly over: AbortSignal
}

export function firstToConnect<A>(addresses: readonly A[], race: Race<A>): Promise<Dialled<A>> {
  const { attempt, event, deadlineMs, over } = race
  const delayMs = Math.max(ATTEMPT_DELAY_MIN_MS, deadlineMs / 2 / addresses.length)
  const attempts: { readonly address: A; readonly stream: Socket }[] = []
  const errors: NodeJS.ErrnoException[] = []
  const { promise, resolve } = Promise.withResolvers<Dialled<A>>()
  let delay: NodeJS.Timeout | undefined
  let ended = false

  function next(): void {
    clearTimeout(delay)
    const address = addresses[attempts.length]
    if (address === undefined) return
    const stream = attempt(address)
    attempts.push({ address, stream })
    stream.once('connect', () => reached.add(stream))
    stream.once(event, () => end({ address, stream }))
    // It stays: an attempt that lost may fail later.
    stream.on('error', (error) => {
      if (ended) return
      errors.push(error)
      if (errors.length === addresses.length) end(lost(together(errors)))
      else next()
    })
    delay = setTimeout(next, delayMs)
  }

  function lost(error: NodeJS.ErrnoException): Dialled<A> {
    const furthest = attempts.find(({ stream }) => wasReached(stream)) ?? attempts[0]
    return { ...furthest, error }
  }

  function end(dialled: Dialled<A>): void {
    if (ended) return
    ended = true
    clearTimeout(delay)
    for (const { stream } of attempts)
      if (stream !== dialled.stream || dialled.error !== undefined) stream.destroy()
    resolve(dialled)
  }

  const giveUp = () => end(lost(over.reason as NodeJS.ErrnoException))
  over.addEventListener('abort', giveUp, { once: true })
  if (over.aborted) giveUp()
  else next()
  return promise
}

/** With the code of the first: the address that the system prefers. */
function together(errors: readonly NodeJS.ErrnoException[]): NodeJS.ErrnoException {
  const [first] = errors
  const message = errors.map((error) => error.message || error.code).join(', ')
  return Object.assign(first ?? new Error(message), { message })
}
