/**
 * Opens the sockets of a node's client, within its connect timeout: for the name, for TCP and for TLS together.
 *
 * ioredis' own connector takes no lookup and no buffer to read into, and tries one address. Owns the order of a name's addresses: families in
 * turn (RFC 8305, section 4), but first the one that the last connection was made to, or last of all where nothing was heard there.
 */

import type { LookupAddress } from 'node:dns'
import { createConnection, isIP, type NetConnectOpts, Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { AbstractConnector, type RedisOptions } from 'ioredis'
import { type Dialled, firstToConnect } from './happy-eyeballs.ts'
import { hostNames } from './host-names.ts'

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
