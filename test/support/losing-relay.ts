/** A connection that breaks after the request has arrived: the request takes effect, and the client gets no answer. */
import { connect, createServer } from 'node:net'
import { listening } from './listening.ts'

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
  let losing = false
  let lost = 0
  const server = createServer((asking) => {
    const asked = connect({ host, port: Number(port) })
    for (const [one, other] of [
      [asking, asked],
      [asked, asking],
    ] as const) {
      one.on('error', () => other.destroy())
      one.on('close', () => other.destroy())
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
  const served = await listening(server)
  return {
    ...served,
    get lost() {
      return lost
    },
    loseNextAnswer: () => {
      losing = true
    },
  }
}
