/**
 * A real NATS server with JetStream for one test, on its own port and in its own folder.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'
import { started } from './started.ts'

export class NatsServer implements AsyncDisposable {
  readonly port: number
  readonly #program: string
  readonly #folder: string
  #process: TestProcess | undefined

  constructor(program: string, folder: string, port: number) {
    this.#program = program
    this.#folder = folder
    this.port = port
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`
  }

  async start(): Promise<void> {
    const args = ['-a', '127.0.0.1', '-p', String(this.port), '-js', '-sd', this.#folder]
    const process = new TestProcess(this.#program, args, { name: 'nats-server', cwd: this.#folder })
    this.#process = process
    await process.line(/Server is ready/)
    await process.until('a listener', () => greets(this.port))
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.#process?.end({ signal })
  }

  /** SIGSTOP: connected, and silent. */
  pause(): void {
    this.#process?.signal('SIGSTOP')
  }

  resume(): void {
    this.#process?.signal('SIGCONT')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

export async function startNats(): Promise<NatsServer> {
  const program = requireProgram('nats')
  const server = new NatsServer(program, await mkdtemp(join(tmpdir(), 'fencepost-nats-')), await freePort())
  return started(server)
}

function greets(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port })
    socket.once('data', (bytes) => {
      resolve(bytes.toString().startsWith('INFO'))
      socket.destroy()
    })
    socket.once('error', () => resolve(false))
  })
}
