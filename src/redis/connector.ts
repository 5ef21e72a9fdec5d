/**
 * Opens the sockets of a node's client, within its connect timeout: for the name, for TCP and for TLS together.
 *
 * ioredis' own connector takes no lookup and no buffer to read into, and tries one address. Here a name's addresses race: Happy Eyeballs
 * (RFC 8305). Node gives each address a quarter of a second or more and then gives it up, which is longer than all of our deadline. Here each
 * is begun within the first half of the deadline, none is given up before its end, and the first that connects is used; with TLS, the first
 * whose handshake is over. One that fails begins the next at once. Families take turns (section 4), but first is the address that the last
 * connection was made to, or last of all where nothing was heard there.
 */

import { type LookupAddress, lookup } from 'node:dns'
import { createConnection, isIP, type NetConnectOpts, Socket } from 'node:net'
import { connect as connectTls, createSecureContext, type SecureContext } from 'node:tls'
import { AbstractConnector, type RedisOptions } from 'ioredis'

export type NodeTlsFiles = {
  /** PEM of the authorities that sign the nodes' certificates; by default the system's. */
  readonly ca?: string | undefined
  /** PEM of the certificate that is shown to nodes that ask for one, with its chain, and of its key. */
  readonly cert?: string | undefined
  readonly key?: string | undefined
}

export type NodeTls = {
  readonly context: SecureContext
  readonly showsCertificate: boolean
  /** Of its own, in place of the system's. */
  readonly hasAuthorities: boolean
}

/**
 * A connection keeps what it was made with; the next one asks anew.
 *
 * @throws if OpenSSL can't use them
 */
export function createNodeTls({ ca, cert, key }: NodeTlsFiles): NodeTls {
  const context = createSecureContext({
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  })
  return { context, showsCertificate: cert !== undefined, hasAuthorities: ca !== undefined }
}

/** Node sends none by itself (SNI). It is a name and no address, without the dot of a complete one (RFC 6066, section 3). */
function serverName(host: string): { readonly servername?: string } {
  return isIP(host) === 0 ? { servername: host.replace(/\.$/, '') } : {}
}

/** Of every plain connection: what is read is copied before the next read, and answers are short. */
const received = Buffer.allocUnsafeSlow(64 * 1024)

/**
 * Without `onread` Node takes 64 KiB of memory for each read of a socket, gives most of it back, and passes the bytes through a stream. Nobody pauses
 * these streams or reads them otherwise: ioredis listens for `data` from the moment of the connection.
 */
function plainConnection(at: NetConnectOpts): Socket {
  const stream: Socket = createConnection({
    ...at,
    onread: {
      buffer: received,
      callback: (bytes) => {
        stream.emit('data', Buffer.from(received.subarray(0, bytes)))
        return true
      },
    },
  })
  return stream
}

/** Of a dial that the client itself ended: nobody asks why. */
const GIVEN_UP = new Error('given up')

export class Connector extends AbstractConnector {
  readonly #options: RedisOptions
  #dial = new AbortController()
  #last: { readonly address: string | undefined; readonly stream: Socket } | undefined

  constructor(options: unknown) {
    const given = options as RedisOptions
    super(given.disconnectTimeout ?? 0)
    this.#options = given
  }

  /** ioredis goes on with a stream that is connected, and dials again after one that is destroyed. */
  override async connect(): Promise<Socket> {
    const { path, host = 'localhost', port = 6379, tls, connectTimeout: deadlineMs = 0 } = this.#options
    const dial = new AbortController()
    this.#dial = dial
    // What came in time is looked at first: this process itself may have stood still.
    const late = () => setImmediate(() => dial.abort(timedOut()))
    const deadline = setTimeout(late, deadlineMs)
    const attempt = (address: string | undefined) => {
      const at = address === undefined ? { path: path ?? '' } : { host: address, port }
      return tls ? connectTls({ ...at, ...serverName(host), ...tls }) : plainConnection(at)
    }
    const race = { attempt, event: tls ? 'secureConnect' : 'connect', deadlineMs, over: dial.signal } as const
    const addresses = path ? [undefined] : await this.#addressesOf(host, dial.signal)
    const dialled: Dialled<string | undefined> =
      addresses instanceof Error ? { error: addresses } : await firstToConnect(addresses, race)
    clearTimeout(deadline)
    const { stream = new Socket().destroy(), address, error } = dialled
    if (error === undefined || error === GIVEN_UP) delete this.firstError
    else this.firstError = error
    if (error === undefined) this.#last = { address, stream }
    this.stream = stream
    return stream
  }

  override disconnect(): void {
    this.#dial.abort(GIVEN_UP)
    super.disconnect()
  }

  async #addressesOf(host: string, over: AbortSignal): Promise<readonly string[] | Error> {
    if (isIP(host) !== 0) return [host]
    const { promise, resolve } = Promise.withResolvers<readonly string[] | Error>()
    over.addEventListener('abort', () => resolve(over.reason as Error), { once: true })
    hostNames.addressesOf(host, ({ error, addresses }) => resolve(error ?? this.#inOrder(addresses)))
    return await promise
  }

  #inOrder(addresses: readonly LookupAddress[]): readonly string[] {
    const rank = (address: string) => {
      if (address !== this.#last?.address) return 1
      return this.#last.stream.bytesRead > 0 ? 0 : 2
    }
    return familiesInTurn(addresses).sort((a, b) => rank(a) - rank(b))
  }
}

/** Beginning with the one that the system prefers. */
function familiesInTurn(addresses: readonly LookupAddress[]): string[] {
  const of = (preferred: boolean) =>
    addresses.filter(({ family }) => (family === addresses[0]?.family) === preferred)
  const [first, second] = [of(true), of(false)]
  return first
    .flatMap((one, at) => [one, ...second.slice(at, at + 1)])
    .concat(second.slice(first.length))
    .map(({ address }) => address)
}

function timedOut(): NodeJS.ErrnoException {
  return Object.assign(new Error('connect ETIMEDOUT'), { code: 'ETIMEDOUT', syscall: 'connect' })
}

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

type Answer = { readonly error: NodeJS.ErrnoException | null; readonly addresses: readonly LookupAddress[] }

export type HostNames = {
  /** @param answered called once, with an error or with at least one address */
  addressesOf(host: string, answered: (answer: Answer) => void): void
}

/**
 * Where the host names of nodes lead, asked of the system so that one name nobody answers for holds nothing else up.
 *
 * Node asks on two threads, for all that this process dials: nodes, the application, issuers of keys. A question that its
 * servers leave unanswered keeps one for ten seconds and more, and a node that is away is dialled again every second.
 * Two such names would keep both, and nothing could be dialled by its name any more, however well its own servers do.
 * So all nodes together ask one question at a time, and none about a name that is asked about already. A node that was
 * reached before is meanwhile dialled where its name led then: whoever answers there is inspected before it is used.
 *
 * @param ask the system, about one name; settles once
 */
export function createHostNames(ask: (host: string, answered: (answer: Answer) => void) => void): HostNames {
  const known = new Map<string, readonly LookupAddress[]>()
  const waiting = new Map<string, ((answer: Answer) => void)[]>()
  const questions: string[] = []
  let asking = false

  function next(): void {
    const host = asking ? undefined : questions.shift()
    if (host === undefined) return
    asking = true
    ask(host, (answer) => {
      asking = false
      if (answer.error === null) known.set(host, answer.addresses)
      // There is no such name any more. Any other error says that nobody answered.
      else if (answer.error.code === 'ENOTFOUND') known.delete(host)
      const dials = waiting.get(host) ?? []
      waiting.delete(host)
      next()
      for (const dial of dials) dial(lastKnown(host) ?? answer)
    })
  }

  function lastKnown(host: string): Answer | undefined {
    const addresses = known.get(host)
    return addresses === undefined ? undefined : { error: null, addresses }
  }

  function addressesOf(host: string, answered: (answer: Answer) => void): void {
    const dials = waiting.get(host)
    if (dials === undefined) {
      waiting.set(host, [answered])
      questions.push(host)
      next()
      return
    }
    // The dial before this one has waited in vain.
    const before = lastKnown(host)
    if (before === undefined) dials.push(answered)
    else queueMicrotask(() => answered(before))
  }

  return { addressesOf }
}

/** Of this process: its threads are as well. */
export const hostNames = createHostNames((host, answered) =>
  lookup(host, { all: true }, (error, addresses) => answered({ error, addresses: addresses ?? [] })),
)
