/**
 * A connection to the application: how it is dialled, and the second try of a request that met one which the application had given up while it was idle.
 *
 * An application may close an idle connection at any moment, also at the one in which a request is being written to it. What came
 * after the request on that connection tells: nothing, although there had been answers before it.
 *
 * Owns what was read from a connection before and after a request was written to it, that there is one second try, and that a connection on
 * which an answer may have overtaken its request takes no other. The socket is a private member of undici, whose version is exact in
 * package.json.
 */

import type { Socket } from 'node:net'
import { buildConnector, Client, type Dispatcher } from 'undici'
import symbols from 'undici/lib/core/symbols.js'

/** A request's handler that wants to know its connection. */
export type ConnectedHandler = Dispatcher.DispatchHandler & { connection?: Connection | undefined }

type ConnectedSocket = Socket & { [symbols.kReset]: boolean }

export class Connection extends Client {
  override dispatch(options: Dispatcher.DispatchOptions, handler: ConnectedHandler): boolean {
    handler.connection = this
    return super.dispatch(options, handler)
  }

  /**
   * Only while a request is about to be written: before and after that it may have no socket.
   *
   * @returns whether the connection was kept from an earlier request, and nothing was read since
   */
  watched(): () => boolean {
    const socket = this.#socket
    const before = socket.bytesRead
    return () => before > 0 && socket.bytesRead === before
  }

  /** It ends with the answer that has begun, as where the application had said `Connection: close`. */
  endAfterAnswer(): void {
    this.#socket[symbols.kReset] = true
  }

  get #socket(): ConnectedSocket {
    return (this as unknown as { readonly [symbols.kSocket]: ConnectedSocket })[symbols.kSocket]
  }
}

/** Of a request that changes nothing. */
export class SecondTry {
  readonly #send: () => void
  #isGivenUp: (() => boolean) | undefined
  #taken = false

  constructor(send: () => void) {
    this.#send = send
  }

  /** The request is about to be written to this connection. */
  watch(connection: Connection | undefined): void {
    this.#isGivenUp = connection?.watched()
  }

  /** @returns true where the request is sent once more, so that it has not failed yet */
  begins(): boolean {
    if (this.#taken || this.#isGivenUp?.() !== true) return false
    this.#taken = true
    // Not in the turn of the closing connection: the pool still has it.
    queueMicrotask(this.#send)
    return true
  }
}

export type ApplicationAddress =
  | { readonly kind: 'http'; readonly origin: string }
  | { readonly kind: 'unix'; readonly path: string }

/** Node gives up each address but the last after this share: with its own half of a second a short deadline would never reach the second one. */
const ATTEMPT_SHARE = 1 / 4
/** The least that Node takes. */
const ATTEMPT_MIN_MS = 10

/** How the application is dialled, by `fencepost doctor`, too, which so finds what a request would find. */
export function connectorTo(address: ApplicationAddress, connectTimeoutMs: number): buildConnector.connector {
  return buildConnector({
    timeout: connectTimeoutMs,
    allowH2: false,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: Math.max(ATTEMPT_MIN_MS, Math.floor(connectTimeoutMs * ATTEMPT_SHARE)),
    ...(address.kind === 'unix' ? { socketPath: address.path } : {}),
  })
}

/** Why no connection is made, over TLS no handshake; undefined where one is. */
export function whyNoConnection(
  address: ApplicationAddress,
  connectTimeoutMs: number,
): Promise<string | undefined> {
  const { host, hostname, protocol, port } = new URL(
    address.kind === 'unix' ? 'http://localhost' : address.origin,
  )
  return new Promise((resolve) => {
    connectorTo(address, connectTimeoutMs)({ host, hostname, protocol, port }, (error, socket) => {
      socket?.destroy()
      resolve(error === null ? undefined : ((error as NodeJS.ErrnoException).code ?? error.message))
    })
  })
}
