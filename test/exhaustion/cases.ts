/**
 * Ways to exhaust a sidecar, each kept going until disposed: what it holds open, and what it makes the sidecar hold.
 */
import { connect, type Socket } from 'node:net'
import { UNANSWERED_MAX } from '../../src/http/server/connection-faults.ts'
import type { StrictHold } from './holding-application.ts'

export type Target = { readonly proxy: string; readonly application: StrictHold }
export type Load = AsyncDisposable & {
  /** For the report: what is held now. */
  readonly held: () => Readonly<Record<string, number>>
}
export type Case = {
  readonly name: string
  readonly sentence: (count: number) => string
  /** Of connections. */
  readonly count: number
  readonly begin: (target: Target, count: number) => Promise<Load>
}

const HELD = 'POST /held HTTP/1.1\r\nHost: a\r\nIdempotency-Key: held\r\nContent-Length: 2\r\n\r\n{}'
const GET = 'GET /idle HTTP/1.1\r\nHost: a\r\n\r\n'
/** Opened at once: more would only queue in the listener's backlog. */
const OPENED_AT_ONCE = 200
/** Above twice `limits.readerIdle` of the run: Node looks again where bytes have gone out since it last looked. */
const READS_NOTHING_MS = 15_000

export const CASES: readonly Case[] = [
  {
    name: 'idle',
    sentence: (count) => `${count} idle connections, each of which was answered once`,
    count: 10_000,
    begin: async ({ proxy }, count) => {
      const crowd = await gather(proxy, count, async (socket) => {
        socket.write(GET)
        await new Promise((resolve) => socket.once('data', resolve).once('close', resolve))
      })
      return crowd.load(() => ({ connections: crowd.open() }))
    },
  },
  {
    name: 'waiters',
    sentence: (count) => `${count} duplicates that wait for one request`,
    count: 5_000,
    begin: async ({ proxy, application }, count) => {
      let answered = 0
      const first = await gather(proxy, 1, async (socket) => void socket.write(HELD))
      await application.held()
      const crowd = await gather(proxy, count, async (socket) => {
        socket.once('data', () => {
          answered += 1
        })
        socket.write(HELD)
      })
      const load = crowd.load(() => ({ waiting: crowd.open() - answered, answered }))
      return {
        held: load.held,
        [Symbol.asyncDispose]: async () => {
          application.letGo()
          await load[Symbol.asyncDispose]()
          await first.load(() => ({}))[Symbol.asyncDispose]()
        },
      }
    },
  },
  {
    name: 'slow',
    sentence: (count) =>
      `${count} clients that send one byte a second, of a head or of a body, and come again when they are cut`,
    count: 1_000,
    begin: async ({ proxy }, count) => {
      const cut = { times: 0 }
      const drips = Array.from({ length: count }, (_, index) => drip(proxy, index, cut))
      return {
        held: () => ({ connections: drips.length, cut: cut.times }),
        [Symbol.asyncDispose]: async () => {
          for (const end of drips) end()
        },
      }
    },
  },
  {
    name: 'readers',
    sentence: (count) =>
      `${count} clients that do not read a replay of 200 KiB, and come again when they are cut`,
    count: 30,
    begin: async ({ proxy }, count) => {
      const cut = { times: 0 }
      const readers = Array.from({ length: count }, () => reader(proxy, cut))
      return {
        held: () => ({ connections: readers.length, cut: cut.times }),
        [Symbol.asyncDispose]: async () => {
          for (const end of readers) end()
        },
      }
    },
  },
]

async function gather(proxy: string, count: number, greet: (socket: Socket) => Promise<void>) {
  const sockets = new Set<Socket>()
  const join = async (): Promise<void> => {
    const socket = dial(proxy)
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    await new Promise<void>((resolve) => socket.once('connect', resolve).once('close', () => resolve()))
    await greet(socket)
    socket.on('data', () => {})
  }
  for (let joined = 0; joined < count; joined += OPENED_AT_ONCE)
    await Promise.all(Array.from({ length: Math.min(OPENED_AT_ONCE, count - joined) }, join))
  return {
    open: () => sockets.size,
    load: (held: Load['held']): Load => ({
      held,
      [Symbol.asyncDispose]: async () => {
        for (const socket of sockets) socket.destroy()
      },
    }),
  }
}

function drip(proxy: string, index: number, cut: { times: number }): () => void {
  // Half of them never end their head, half never their body.
  const bytes =
    index % 2 === 0
      ? `GET /slow HTTP/1.1\r\nHost: a\r\nX: `
      : 'POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n'
  let ended = false
  let socket: Socket
  const again = (): void => {
    socket = dial(proxy)
    socket.once('connect', () => socket.write(bytes))
    socket.on('data', () => {})
    socket.once('close', () => {
      if (ended) return
      cut.times += 1
      again()
    })
  }
  again()
  const timer = setInterval(() => socket.write('x'), 1_000)
  return () => {
    ended = true
    clearInterval(timer)
    socket.destroy()
  }
}

/** Does not read for longer than it may, then looks: a connection cut meanwhile ends before its last answer. */
function reader(proxy: string, cut: { times: number }): () => void {
  let ended = false
  let socket: Socket
  let look: NodeJS.Timeout
  const again = (): void => {
    socket = dial(proxy)
    // More than the buffers of the kernel swallow: 20 MiB. And as many as may wait on one connection.
    const ask = 'POST /large HTTP/1.1\r\nHost: a\r\nIdempotency-Key: large\r\nContent-Length: 2\r\n\r\n{}'
    socket.once('connect', () => socket.write(ask.repeat(UNANSWERED_MAX)))
    socket.pause()
    // A paused socket does not notice that it was cut.
    look = setTimeout(() => socket.on('data', () => {}).resume(), READS_NOTHING_MS)
    socket.once('close', () => {
      clearTimeout(look)
      if (ended) return
      cut.times += 1
      again()
    })
  }
  again()
  return () => {
    ended = true
    socket.destroy()
  }
}

function dial(proxy: string): Socket {
  const { hostname, port } = new URL(proxy)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  socket.on('error', () => {})
  return socket
}
