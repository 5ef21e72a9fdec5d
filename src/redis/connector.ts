/** Opens the sockets of a node's client. ioredis' own connector takes no lookup; this one is the same besides. */

import { createConnection, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { AbstractConnector, type RedisOptions } from 'ioredis'
import { hostNames } from './host-names.ts'

const reached = new WeakSet<Socket>()

/** Whether the other side accepted the connection, whatever came of it. */
export function wasReached(stream: Socket): boolean {
  return reached.has(stream)
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
    const stream = tls ? connectTls({ ...at, ...tls }) : createConnection(at)
    this.stream = stream
    stream.once('connect', () => reached.add(stream))
    stream.once('error', (error) => {
      this.firstError = error
    })
    return stream
  }
}
