/**
 * A TCP proxy between one sidecar and one node that breaks as networks do.
 *
 * Owns the bytes between two sockets, not their meaning. One link stands for one pair of (sidecar, node), so a
 * partition may hit one sidecar alone, without rights on the machine's network. Bytes that a black hole or a one-way
 * drop holds arrive when the path heals, as TCP delivers what it had to send again; `reset` before `heal` loses them.
 * A link can also lead to another server than before, as a name does that was changed (`leadTo`).
 *
 *     const link = await startFaultLink(port)
 *     link.set({ hold: 'back' })      // requests pass, answers don't
 *     link.heal()
 */

import { type AddressInfo, createConnection, createServer, type Server, type Socket } from 'node:net'

/** `out`: from the sidecar to the node; `back`: from the node to the sidecar. */
export type Direction = 'out' | 'back'

export type Trouble = {
  /** Held until healed; `both` is a black hole. */
  readonly hold?: Direction | 'both'
  /** Of each piece, each way unless `slow` names one. Order is kept. */
  readonly latencyMs?: number
  /** The only way that has latency. */
  readonly slow?: Direction
  /** Added at random, from 0. */
  readonly jitterMs?: number
  /** New connections are refused, and open ones are reset. */
  readonly refuse?: boolean
  /** Pieces of at most this many bytes, each in a write of its own. */
  readonly sliceBytes?: number
}

export type Bytes = { readonly direction: Direction; readonly bytes: Buffer }

const HEALTHY: Trouble = {}

/** The bytes that a path holds before it drops a connection: no peer sends more without an answer. */
const heldBytesMax = 4 * 1024 * 1024

export async function startFaultLink(
  targetPort: number,
  fraction: () => number = Math.random,
): Promise<FaultLink> {
  const link = new FaultLink(targetPort, fraction)
  await link.listen()
  return link
}

export class FaultLink implements AsyncDisposable {
  readonly #home: number
  #leadsTo: readonly number[]
  readonly #fraction: () => number
  readonly #pairs = new Set<Pair>()
  readonly #server: Server
  #trouble: Trouble = HEALTHY
  #port = 0
  /** Sees every piece before the link acts on it: finds named points of a protocol from outside. */
  onBytes: ((seen: Bytes) => void) | undefined
  /** Passed bytes, and pieces that were held, sliced, delayed or cut: a trouble without any did not bite. */
  passedBytes = 0
  troubled = 0
  /** Connection attempts. */
  dialled = 0

  constructor(targetPort: number, fraction: () => number) {
    this.#home = targetPort
    this.#leadsTo = [targetPort]
    this.#fraction = fraction
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(socket))
  }

  get port(): number {
    return this.#port
  }

  get trouble(): Trouble {
    return this.#trouble
  }

  get connections(): number {
    return this.#pairs.size
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    this.#port = (this.#server.address() as AddressInfo).port
  }

  set(trouble: Trouble): void {
    this.#trouble = trouble
    if (trouble.refuse === true) this.reset()
    this.#flush()
  }

  /** As at the beginning. Connections to another server stay until they are reset, or that one ends. */
  heal(): void {
    this.#leadsTo = [this.#home]
    this.set(HEALTHY)
  }

  /** The name leads elsewhere: new connections reach these servers by turns, open ones stay where they are. */
  leadTo(...ports: readonly [number, ...number[]]): void {
    this.#leadsTo = ports
  }

  /** The server of the node, to which it leads at the beginning. */
  get home(): number {
    return this.#home
  }

  /** RST on both sides of every connection. Held bytes are lost. */
  reset(): void {
    for (const pair of this.#pairs) {
      this.troubled += 1
      pair.reset()
    }
  }

  /** The node's side sends FIN, and goes on listening. */
  halfClose(): void {
    for (const pair of this.#pairs) {
      this.troubled += 1
      pair.client.end()
    }
  }

  #accept(client: Socket): void {
    this.dialled += 1
    client.on('error', () => {})
    if (this.#trouble.refuse === true) {
      this.troubled += 1
      // The listener stays, so that the port stays ours: a connection that is reset at once is as good as refused.
      client.resetAndDestroy()
      return
    }
    const port = this.#leadsTo[this.dialled % this.#leadsTo.length]
    const node = createConnection({ port: port ?? this.#home, host: '127.0.0.1', allowHalfOpen: true })
    node.setNoDelay(true)
    const pair = new Pair(client, node, () => this.#pairs.delete(pair))
    this.#pairs.add(pair)
    client.on('data', (bytes: Buffer) => this.#take(pair, 'out', bytes))
    node.on('data', (bytes: Buffer) => this.#take(pair, 'back', bytes))
    // The end of a stream queues behind the bytes before it.
    client.once('end', () => this.#queue(pair, 'out', END))
    node.once('end', () => this.#queue(pair, 'back', END))
  }

  #take(pair: Pair, direction: Direction, bytes: Buffer): void {
    this.onBytes?.({ direction, bytes })
    this.#queue(pair, direction, bytes)
  }

  #queue(pair: Pair, direction: Direction, bytes: Buffer): void {
    const { latencyMs = 0, jitterMs = 0, slow = direction } = this.#trouble
    const delayMs = slow === direction ? latencyMs + jitterMs * this.#fraction() : 0
    if (delayMs > 0 || this.#holds(direction) || this.#trouble.sliceBytes !== undefined) this.troubled += 1
    const queue = pair.queues[direction]
    queue.push({ bytes, dueMs: performance.now() + delayMs })
    if (queue.reduce((sum, piece) => sum + piece.bytes.length, 0) > heldBytesMax) pair.reset()
    else this.#deliver(pair, direction)
  }

  #holds(direction: Direction): boolean {
    return this.#trouble.hold === 'both' || this.#trouble.hold === direction
  }

  #flush(): void {
    for (const pair of this.#pairs) {
      this.#deliver(pair, 'out')
      this.#deliver(pair, 'back')
    }
  }

  /** In order, each piece when it is due; held pieces wait for the next {@link set}. */
  #deliver(pair: Pair, direction: Direction): void {
    const queue = pair.queues[direction]
    const to = direction === 'out' ? pair.node : pair.client
    for (let piece = queue[0]; piece !== undefined && !this.#holds(direction); piece = queue[0]) {
      const waitMs = piece.dueMs - performance.now()
      if (waitMs > 0) {
        pair.wake(direction, waitMs, () => this.#deliver(pair, direction))
        return
      }
      queue.shift()
      if (piece.bytes === END) to.end()
      this.passedBytes += piece.bytes.length
      const size = this.#trouble.sliceBytes ?? piece.bytes.length
      for (let at = 0; at < piece.bytes.length; at += size) {
        if (to.writable) to.write(piece.bytes.subarray(at, at + size))
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.reset()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }
}

/** A piece of no bytes: the end of this side. */
const END = Buffer.alloc(0)

type Piece = { readonly bytes: Buffer; readonly dueMs: number }

/** Two sockets that live and die together, and the bytes between them. */
class Pair {
  readonly client: Socket
  readonly node: Socket
  readonly queues: Record<Direction, Piece[]> = { out: [], back: [] }
  readonly #timers = new Map<Direction, NodeJS.Timeout>()
  readonly #gone: () => void

  constructor(client: Socket, node: Socket, gone: () => void) {
    this.client = client
    this.node = node
    this.#gone = gone
    node.on('error', () => this.reset())
    client.once('close', () => this.#close())
    node.once('close', () => this.#close())
  }

  wake(direction: Direction, afterMs: number, then: () => void): void {
    clearTimeout(this.#timers.get(direction))
    this.#timers.set(direction, setTimeout(then, afterMs))
  }

  reset(): void {
    this.client.resetAndDestroy()
    this.node.resetAndDestroy()
    this.#close()
  }

  #close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.client.destroy()
    this.node.destroy()
    this.#gone()
  }
}
