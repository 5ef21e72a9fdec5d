/**
 * A real Kafka node (broker and controller in one) for one test, on its own ports and in its own folder, from jars and
 * a Java. Not part of the default suite: docs/guide/saga.md says how to get the jars (kafka.pom.xml).
 *
 *     await using kafka = await startKafka()        // FENCEPOST_KAFKA_JARS=folder
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { TestProcess } from './processes.ts'

type Launch = (main: string, args: readonly string[]) => TestProcess

export class KafkaServer implements AsyncDisposable {
  readonly address: string
  readonly #folder: string
  readonly #launch: Launch
  readonly #port: number
  #process: TestProcess | undefined

  constructor(port: number, folder: string, launch: Launch) {
    this.#port = port
    this.address = `127.0.0.1:${port}`
    this.#folder = folder
    this.#launch = launch
  }

  async format(): Promise<void> {
    const id = Buffer.from('fencepost-kafka!').toString('base64url')
    const tool = this.#launch('kafka.tools.StorageTool', ['format', '-t', id, '-c', this.#settings])
    const { code } = await tool.exited
    if (code !== 0) throw new Error(`the folder of Kafka could not be formatted:\n${tool.output}`)
  }

  async start(): Promise<void> {
    const process = this.#launch('kafka.Kafka', [this.#settings])
    this.#process = process
    await process.until('a listener', () => listens(this.#port), { withinMs: 90_000, everyMs: 50 })
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
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 })
  }

  get #settings(): string {
    return join(this.#folder, 'server.properties')
  }
}

export async function startKafka(): Promise<KafkaServer> {
  const jars = process.env.FENCEPOST_KAFKA_JARS
  if (jars === undefined) throw new Error('FENCEPOST_KAFKA_JARS is not set: a folder with the jars of Kafka')
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-kafka-'))
  const [port, controllerPort] = [await freePort(), await freePort()]
  await mkdir(join(folder, 'data'))
  const settings = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${controllerPort}`,
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${port}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'log.dirs': join(folder, 'data'),
    'auto.create.topics.enable': false,
    'offsets.topic.num.partitions': 1,
    'offsets.topic.replication.factor': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    // A dead member is noticed after about a second.
    'group.min.session.timeout.ms': 500,
    'group.initial.rebalance.delay.ms': 0,
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
  await writeFile(join(folder, 'server.properties'), `${lines.join('\n')}\n`)
  const server = new KafkaServer(
    port,
    folder,
    (main, args) =>
      new TestProcess('java', ['-Xmx512m', '-cp', join(jars, '*'), main, ...args], {
        name: 'kafka',
        cwd: folder,
      }),
  )
  try {
    await server.format()
    await server.start()
  } catch (error) {
    await server[Symbol.asyncDispose]()
    throw error
  }
  return server
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port })
    socket.once('connect', () => {
      resolve(true)
      socket.destroy()
    })
    socket.once('error', () => resolve(false))
  })
}
