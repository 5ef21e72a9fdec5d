/** A connection that breaks after the request has arrived: the request takes effect, and the client gets no answer. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type LosingRelay = AsyncDisposable & {
  readonly origin: string
  /** Answers that were lost so far. */
  readonly lost: number
  /** The next answer is lost; its connection is closed instead. */
  loseNextAnswer(): void
}

/** @param origin the target of requests: `http://127.0.0.1:…` */
export async function startLosingRelay(origin: string): Promise<LosingRelay> {
  const { hostname: host, port } = new URL(origin)
  const sockets = new Set<Socket>()
  let losing = false
  let lost = 0
  const server = createServer((asking) => {
    const asked = connect({ host, port: Number(port) })
    for (const [one, other] of [
      [asking, asked],
      [asked, asking],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
    asking.pipe(asked)
    asked.on('data', (answer: Buffer) => {
      if (losing) {
        losing = false
        lost += 1
        asking.destroy()
      } else asking.write(answer)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port: at } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${at}`,
    get lost() {
      return lost
    },
    loseNextAnswer: () => {
      losing = true
    },
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
