/** The clients of the cluster tests, as a scenario uses them: begun, and ended with their books. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Machine } from './machine.ts'
import type { Books, Order } from './traffic-process.ts'

/** Of a process on the same machine, for what takes no time by itself. */
const OPEN_MS_MAX = 60_000
/** Requests that were never answered are given up after two minutes. */
const END_MS_MAX = 180_000

export class Clients implements AsyncDisposable {
  readonly #child: ChildProcess
  /** Rejects when the process ends. */
  readonly #gone: Promise<never>

  private constructor(child: ChildProcess) {
    this.#child = child
    this.#gone = once(child, 'exit').then(([code]) => {
      throw new Error(`the process of the clients ended with ${code}`)
    })
    this.#gone.catch(() => {})
  }

  static async start({ inNetwork: [nsenter, ...inside] }: Machine): Promise<Clients> {
    const program = [...inside, process.execPath, join(import.meta.dirname, 'traffic-process.ts')]
    const child = spawn(nsenter, program, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    const clients = new Clients(child)
    await clients.#message(OPEN_MS_MAX)
    return clients
  }

  /** @param sidecars admin addresses of those whose view of the votes is watched */
  begin(target: string, perSecond: number, sidecars: readonly string[] = []): void {
    this.#order({ look: sidecars })
    this.#order({ begin: { target, perSecond } })
  }

  async end(): Promise<Books> {
    this.#order({ end: true })
    const { books } = await this.#message<{ books: Books }>(END_MS_MAX)
    return books
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }

  #order(order: Order): void {
    this.#child.send(order)
  }

  async #message<T>(withinMs: number): Promise<T> {
    const message = once(this.#child, 'message', { signal: AbortSignal.timeout(withinMs) })
    const [said] = (await Promise.race([message, this.#gone])) as [T]
    return said
  }
}
