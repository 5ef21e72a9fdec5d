/** Opens the sockets of a node's client. ioredis' own connector takes no lookup, and no buffer to read into; this one is the same besides. */

import { createConnection, isIP, type NetConnectOpts, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { AbstractConnector, type RedisOptions } from 'ioredis'
import { hostNames } from './host-names.ts'

/** Node sends none by itself (SNI). It is a name and no address, without the dot of a complete one (RFC 6066, section 3). */
function serverName(host = 'localhost'): { readonly servername?: string } {
  return isIP(host) === 0 ? { servername: host.replace(/\.$/, '') } : {}
}

const reached = new WeakSet<Socket>()

/** Whether the other side accepted the connection, whatever came of it. */
export function wasReached(stream: Socket): boolean {
  return reached.has(stream)
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

export class Connector extends AbstractConnector {
  readonly #options: RedisOptions

  constructor(options: unknown) {
    const given = options as RedisOptions
    super(given.disconnectTimeout ?? 0)
    this.#options = given
  }

  override async connect(): Promise<Socket | TLSSocket> {
    const { path, host, port = 6379, tls } = this.#options
    this.connecting = true
    // Whoever dials may give up in the same turn.
    await undefined
    if (!this.connecting) throw new Error('Connection is closed.')
    const at = { ...(path ? { path } : { host: host ?? 'localhost', port }), lookup: hostNames.lookup }
    const stream = tls ? connectTls({ ...at, ...serverName(host), ...tls }) : plainConnection(at)
    this.stream = stream
    stream.once('connect', () => reached.add(stream))
    stream.once('error', (error) => {
      this.firstError = error
    })
    return stream
  }
}
