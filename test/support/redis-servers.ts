/**
 * Independent real Redis (or Valkey) servers for one test: no replication, no cluster, each its own process with its
 * own folder, listening on loopback or on a unix socket only.
 *
 *     await using servers = await startRedisServers(5)
 *     servers.urls                        // redis://127.0.0.1:… , stable over stop and start
 *     await servers.stop(0)               // clean shutdown; without `appendOnly` the node comes back empty
 *     await servers.kill(1)               // SIGKILL: a crash
 *     servers.pause(2); servers.resume(2) // SIGSTOP, SIGCONT: connected, silent, and then all at once
 *     await servers.start(0)              // on the same address
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { foundCluster } from './founded-cluster.ts'
import { freePort } from './free-port.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'

export type RedisServersOptions = {
  /** Default `tcp`. */
  readonly transport?: 'tcp' | 'unix'
  /** Write an append-only file and sync it on every write; default: no persistence. */
  readonly appendOnly?: boolean
  /** Their cluster is founded already: a sidecar need not wait for objections. Default: they are new. */
  readonly founded?: boolean
  /** For example `2mb`; the policy is `noeviction` unless a config line overrides it. */
  readonly maxMemory?: string
  /** Further lines of redis.conf for all servers, or by the index of the server. They win over the lines above. */
  readonly config?: readonly string[] | ((index: number) => readonly string[])
  /** Added to the environment of one server, also when it restarts. */
  readonly env?: (index: number) => Readonly<Record<string, string>>
}

export type RedisServer = {
  readonly index: number
  /** `redis://127.0.0.1:17001` or, on a unix socket, its path (what ioredis takes as its first argument). */
  readonly url: string
  readonly address: Address
  /** Its folder: redis.conf, and its data. Removed at the end. */
  readonly folder: string
  readonly process: TestProcess
}

export type Address =
  | { readonly kind: 'tcp'; readonly host: '127.0.0.1'; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string }

export async function startRedisServers(
  count: number,
  options: RedisServersOptions = {},
): Promise<RedisServers> {
  const program = requireProgram('redis')
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-redis-'))
  const begun = await Promise.allSettled(
    Array.from({ length: count }, (_, index) => startOnFreeAddress(program, folder, index, options)),
  )
  const servers = new RedisServers(
    program,
    folder,
    begun.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : [])),
    options,
  )
  const failed = begun.find((one) => one.status === 'rejected')
  if (failed === undefined) {
    if (options.founded === true) await foundCluster(servers.urls)
    return servers
  }
  await servers[Symbol.asyncDispose]()
  throw failed.reason
}

export class RedisServers implements AsyncDisposable {
  readonly #program: string
  readonly #folder: string
  readonly #servers: RedisServer[]
  readonly #options: RedisServersOptions

  constructor(program: string, folder: string, servers: RedisServer[], options: RedisServersOptions) {
    this.#program = program
    this.#folder = folder
    this.#servers = servers
    this.#options = options
  }

  get count(): number {
    return this.#servers.length
  }

  get urls(): readonly string[] {
    return this.#servers.map((server) => server.url)
  }

  /** What sidecars call them, which are given no other names. */
  get names(): readonly string[] {
    return this.urls.map((url) => (URL.canParse(url) ? new URL(url).host : url))
  }

  /** For `FENCEPOST_REDIS_NODES`. */
  get nodesSetting(): string {
    return this.urls.join(',')
  }

  at(index: number): RedisServer {
    const server = this.#servers[index]
    if (server === undefined) throw new RangeError(`there are ${this.count} servers, none has index ${index}`)
    return server
  }

  /** Clean shutdown: waits until the process has ended. */
  async stop(index: number): Promise<void> {
    await this.at(index).process.end({ signal: 'SIGTERM' })
  }

  /** By default a crash: no flush, no close to clients. Waits until the process has ended. */
  async kill(index: number, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.at(index).process.end({ signal })
  }

  /** Stops the process: connections stay open, commands get no answer. */
  pause(index: number): void {
    this.at(index).process.signal('SIGSTOP')
  }

  resume(index: number): void {
    this.at(index).process.signal('SIGCONT')
  }

  /**
   * Restarts a stopped server on its address, with its data, or empty where `emptied`.
   *
   * @param how for this run alone: another `program`, and further words of its command line (`args`)
   */
  async start(
    index: number,
    {
      emptied = false,
      program = this.#program,
      args = [],
    }: { readonly emptied?: boolean; readonly program?: string; readonly args?: readonly string[] } = {},
  ): Promise<void> {
    const { folder, address, process, url } = this.at(index)
    if (process.running) throw new Error(`${process.name} is running already`)
    if (emptied) {
      await rm(join(folder, 'data'), { recursive: true, force: true })
      await mkdir(join(folder, 'data'))
    }
    const again = launch(program, folder, index, this.#options, args)
    this.#servers[index] = { index, url, address, folder, process: again }
    await ready(again, address)
  }

  /** The log of the server since its last start. */
  output(index: number): string {
    return this.at(index).process.output
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = await Promise.allSettled(
      // SIGKILL: its data is no longer needed, and a clean end would save it first.
      this.#servers.map((server) => server.process.end({ signal: 'SIGKILL' })),
    )
    await rm(this.#folder, { recursive: true, force: true })
    const failed = ended.find((one) => one.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }
}

/** Another process may take a free port between our check and the server's bind: then another port is tried. */
async function startOnFreeAddress(
  program: string,
  parent: string,
  index: number,
  options: RedisServersOptions,
): Promise<RedisServer> {
  const folder = join(parent, String(index))
  await mkdir(join(folder, 'data'), { recursive: true })
  for (let attempt = 1; ; attempt += 1) {
    const address: Address =
      options.transport === 'unix'
        ? { kind: 'unix', path: join(folder, 'redis.sock') }
        : { kind: 'tcp', host: '127.0.0.1', port: await freePort() }
    await writeFile(join(folder, 'redis.conf'), configuration(folder, index, address, options).join('\n'))
    const process = launch(program, folder, index, options)
    try {
      await ready(process, address)
      const url = address.kind === 'unix' ? address.path : `redis://${address.host}:${address.port}`
      return { index, url, address, folder, process }
    } catch (error) {
      await process.end({ signal: 'SIGKILL' })
      if (attempt === 5 || !process.output.includes('Address already in use')) throw error
    }
  }
}

function configuration(folder: string, index: number, address: Address, options: RedisServersOptions) {
  const further = typeof options.config === 'function' ? options.config(index) : (options.config ?? [])
  return [
    ...(address.kind === 'unix'
      ? ['port 0', `unixsocket ${address.path}`, 'unixsocketperm 700']
      : ['bind 127.0.0.1', `port ${address.port}`, 'protected-mode no']),
    'daemonize no',
    `dir ${join(folder, 'data')}`,
    'save ""',
    `appendonly ${options.appendOnly ? 'yes' : 'no'}`,
    'appendfsync always',
    'maxmemory-policy noeviction',
    ...(options.maxMemory === undefined ? [] : [`maxmemory ${options.maxMemory}`]),
    ...further,
    '',
  ]
}

function launch(
  program: string,
  folder: string,
  index: number,
  options: RedisServersOptions,
  args: readonly string[] = [],
): TestProcess {
  return new TestProcess(program, [join(folder, 'redis.conf'), ...args], {
    name: `redis server ${index}`,
    cwd: folder,
    env: options.env?.(index) ?? {},
  })
}

/**
 * Waits until the server answers PING, and checks that this process answers. A server that demands a password (NOAUTH)
 * counts; one that is still loading its file does not.
 */
async function ready(process: TestProcess, address: Address): Promise<void> {
  await process.until('an answer to PING', async () => {
    const answer = await ask(address, 'PING\r\nINFO server\r\n')
    if (answer.startsWith('-NOAUTH')) return true
    return answer.startsWith('+PONG') && answer.includes(`process_id:${process.pid}\r\n`)
  })
}

function ask(address: Address, commands: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket =
      address.kind === 'unix'
        ? createConnection({ path: address.path })
        : createConnection({ host: address.host, port: address.port })
    let answer = ''
    // QUIT makes the server close the connection after its answers, so the end needs no parsing.
    socket.setTimeout(1_000, () => socket.destroy(new Error(`no answer within 1 s: ${answer}`)))
    socket.once('connect', () => socket.write(`${commands}QUIT\r\n`))
    socket.setEncoding('utf8').on('data', (text) => {
      answer += text
    })
    socket.once('error', reject)
    socket.once('close', () => resolve(answer))
  })
}
