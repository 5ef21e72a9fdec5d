/**
 * Real NATS servers with JetStream for one test, on ports of their own and in folders of their own: one, or a cluster.
 *
 *     await using cluster = await startNatsCluster()      // three
 *     cluster.servers[1].name                             // as JetStream names the leader of a stream
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'
import { started } from './started.ts'

export class NatsServer implements AsyncDisposable {
  readonly port: number
  readonly name: string
  readonly #program: string
  readonly #folder: string
  readonly #config: readonly string[]
  #process: TestProcess | undefined

  constructor(program: string, folder: string, port: number, config: readonly string[]) {
    this.#program = program
    this.#folder = folder
    this.port = port
    this.name = `s${port}`
    this.#config = config
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`
  }

  async start(): Promise<void> {
    const file = join(this.#folder, 'server.conf')
    const jetstream = `jetstream { store_dir: "${this.#folder}" }`
    await writeFile(file, `${[`server_name: ${this.name}`, jetstream, ...this.#config].join('\n')}\n`)
    const args = ['-a', '127.0.0.1', '-p', String(this.port), '-c', file]
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

export type NatsServerOptions = {
  /** Further lines of its configuration. */
  readonly config?: readonly string[]
}

export async function startNats({ config = [] }: NatsServerOptions = {}): Promise<NatsServer> {
  return started(await newServer(config, await freePort()))
}

async function newServer(config: readonly string[], port: number): Promise<NatsServer> {
  const program = requireProgram('nats')
  return new NatsServer(program, await mkdtemp(join(tmpdir(), 'fencepost-nats-')), port, config)
}

export type NatsCluster = AsyncDisposable & { readonly servers: readonly NatsServer[] }

/** Of three servers, which elect the leader of JetStream after their start. */
export async function startNatsCluster(): Promise<NatsCluster> {
  const ports = await Promise.all([freePort(), freePort(), freePort()])
  const routePorts = await Promise.all([freePort(), freePort(), freePort()])
  const routes = routePorts.map((port) => `"nats://127.0.0.1:${port}"`).join(', ')
  const servers = await Promise.all(
    ports.map((port, index) =>
      newServer(
        [`cluster { name: test, listen: "127.0.0.1:${routePorts[index]}", routes: [${routes}] }`],
        port,
      ),
    ),
  )
  const cluster = {
    servers,
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()))
    },
  }
  try {
    await Promise.all(servers.map((server) => server.start()))
    return cluster
  } catch (error) {
    await cluster[Symbol.asyncDispose]()
    throw error
  }
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
