/**
 * A real RabbitMQ node for one test: its own name, ports, folder and epmd, so that it meets no other node of the machine.
 * It takes about five seconds to start: one node serves a whole file of tests, each with its own queues.
 *
 *     await using rabbit = await startRabbitMq()
 *     rabbit.url                                 // amqp://guest:guest@127.0.0.1:…
 *     await rabbit.kill(); await rabbit.start()  // SIGKILL, and back on the same port with what it had on disk
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from './free-port.ts'
import { unprivileged } from './postgres-server.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'
import { started } from './started.ts'

const plentyOfMemory = '4GB'

const behindDebiansWrapper = '/usr/lib/rabbitmq/bin/rabbitmq-server'

export async function startRabbitMq(): Promise<RabbitMqServer> {
  const found = requireProgram('rabbitmq')
  // Debian's PATH has a wrapper that changes user and folder; the program itself is here.
  const program = existsSync(behindDebiansWrapper) ? behindDebiansWrapper : found
  const epmd = requireProgram('epmd')
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-rabbitmq-'))
  const account = await unprivileged()
  await mkdir(join(folder, 'home'))
  await writeFile(join(folder, 'enabled_plugins'), '[].\n')
  await writeFile(join(folder, 'env.conf'), '\n')
  await writeFile(
    join(folder, 'rabbitmq.conf'),
    // The machine of a test has little memory and disk to spare: its alarms would block publishers.
    [
      'loopback_users = none',
      `vm_memory_high_watermark.absolute = ${plentyOfMemory}`,
      'disk_free_limit.absolute = 10MB',
      // So that a small message can be too large.
      'max_message_size = 1048576',
      '',
    ].join('\n'),
  )
  if (account !== undefined)
    for (const path of [folder, join(folder, 'home')]) await chown(path, account.uid, account.gid)
  const [port, distPort, epmdPort] = [await freePort(), await freePort(), await freePort()]
  const nodeName = `fencepost_${randomBytes(4).toString('hex')}@localhost`
  const cookie = randomBytes(8).toString('hex')
  const env = {
    HOME: join(folder, 'home'),
    ERL_EPMD_PORT: String(epmdPort),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: nodeName,
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(distPort),
    RABBITMQ_MNESIA_BASE: join(folder, 'mnesia'),
    RABBITMQ_LOG_BASE: join(folder, 'log'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq.conf'),
    RABBITMQ_CONF_ENV_FILE: join(folder, 'env.conf'),
    // Makes the script exec the node instead of waiting for it, so that a signal reaches the node.
    RABBITMQ_ALLOW_INPUT: 'true',
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `-noinput -setcookie ${cookie} +S 1:1 +sbwt none`,
  }
  const prefix = account?.prefix ?? []
  const launch = (command: readonly string[], name: string) => {
    const [first, ...args] = [...prefix, ...command]
    return new TestProcess(first!, args, { name, env, cwd: folder })
  }
  const names = launch([epmd, '-port', String(epmdPort), '-address', '127.0.0.1'], 'epmd')
  const server = new RabbitMqServer(port, folder, names, {
    node: () => launch([program], 'rabbitmq-server'),
    control: (args) =>
      launch([join(dirname(program), 'rabbitmqctl'), '--erlang-cookie', cookie, ...args], 'rabbitmqctl'),
  })
  return started(server)
}

type Launch = {
  readonly node: () => TestProcess
  readonly control: (args: readonly string[]) => TestProcess
}

export class RabbitMqServer implements AsyncDisposable {
  readonly port: number
  readonly #folder: string
  readonly #epmd: TestProcess
  readonly #launch: Launch
  #process: TestProcess | undefined

  constructor(port: number, folder: string, epmd: TestProcess, launch: Launch) {
    this.port = port
    this.#folder = folder
    this.#epmd = epmd
    this.#launch = launch
  }

  get url(): string {
    return `amqp://guest:guest@127.0.0.1:${this.port}`
  }

  /** The log of the node since its last start. */
  output(): string {
    return this.#process?.output ?? ''
  }

  async start(withinMs = 300_000): Promise<void> {
    const process = this.#launch.node()
    this.#process = process
    await process.until('an AMQP listener', () => greets(this.port), { withinMs, everyMs: 50 })
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.#process?.end({ signal })
  }

  /** While its memory counts as full, the node reads no more from a connection that has published. */
  async memoryAlarm(on: boolean): Promise<void> {
    await this.control('set_vm_memory_high_watermark', 'absolute', on ? '1' : plentyOfMemory)
  }

  /** `rabbitmqctl` with these arguments. */
  async control(...args: readonly string[]): Promise<void> {
    const control = this.#launch.control(args)
    const { code } = await control.exited
    if (code !== 0) throw new Error(`rabbitmqctl failed: ${control.output}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    await this.#epmd.end({ signal: 'SIGKILL' })
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** A broker that is up answers a wrong protocol header with its own (AMQP 0-9-1, section 2.2.4). */
function greets(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port })
    socket.setTimeout(1_000, () => socket.destroy())
    socket.once('connect', () => socket.write('HTTP/1.1'))
    socket.once('data', (bytes) => {
      resolve(bytes.toString().startsWith('AMQP'))
      socket.destroy()
    })
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
  })
}
