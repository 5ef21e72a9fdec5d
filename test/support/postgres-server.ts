/**
 * A real PostgreSQL server for one test: a cluster of its own in a folder of its own, reached over a unix socket and on
 * loopback. Its files are a copy: making them takes as long as many a test, copying them a sixth of that. postgres refuses
 * to run as root: there it runs as the user `nobody`.
 *
 *     await using server = await startPostgres()
 *     const pool = server.pool()                 // ended with the server
 *     await server.kill(); await server.start()  // SIGKILL of the whole server, and its recovery
 *     await server.killBackend()                 // SIGKILL of one backend: the server ends all others and recovers
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chown, mkdir, mkdtemp, realpath, rename, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { freePort } from './free-port.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'
import { started } from './started.ts'

const run = promisify(execFile)

export type PostgresOptions = {
  /** Write through to the disk. Default false: without it a SIGKILL of the server loses no data, a power cut would. */
  readonly durable?: boolean
  /** Further lines of postgresql.conf. */
  readonly config?: readonly string[]
}

export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const program = requireProgram('postgres')
  const folder = await mkdtemp(join(await placeFor(options), 'fencepost-postgres-'))
  const account = await unprivileged()
  if (account !== undefined) await chown(folder, account.uid, account.gid)
  const data = join(folder, 'data')
  // `-a`: as root, too, the copies belong to whom the template belongs to.
  await run('cp', ['-a', await templateOf(program, account), data])
  const port = await freePort()
  const { durable = false, config = [] } = options
  const lines = [
    `port = ${port}`,
    "listen_addresses = '127.0.0.1'",
    `unix_socket_directories = '${folder}'`,
    'max_connections = 200',
    'shared_buffers = 64MB',
    `fsync = ${durable ? 'on' : 'off'}`,
    // A commit survives a SIGKILL of the server: the page cache keeps it.
    'synchronous_commit = on',
    'full_page_writes = off',
    'dynamic_shared_memory_type = mmap',
    'log_min_messages = fatal',
    ...config,
  ]
  await writeFile(join(data, 'postgresql.auto.conf'), `${lines.join('\n')}\n`)
  const server = new PostgresServer([...(account?.prefix ?? []), program, '-D', data], folder, port)
  return started(server)
}

const memoryDisk = '/dev/shm'
const memoryBytesMin = 4 * 1024 ** 3

/** In memory where the system has a disk there with room for many: a copy takes half the time, and no server waits for another's disk. */
async function placeFor({ durable = false }: PostgresOptions): Promise<string> {
  if (durable) return tmpdir()
  const room = await statfs(memoryDisk).catch(() => undefined)
  return room !== undefined && room.bavail * room.bsize >= memoryBytesMin ? memoryDisk : tmpdir()
}

/** Every server of a test copies these files. So the write-ahead log is in small ones … */
const initdbOptions = ['--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync', '--wal-segsize=1']
/** … and of the three first databases one is left out, which no test uses. */
const withoutThirdCopy = [
  "UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'",
  'DROP DATABASE template0',
]

const templates = join(import.meta.dirname, '../../.tmp/postgres')

/** The files of a new cluster of this program: of each version its own, under a name of what the program is. */
async function templateOf(program: string, account: Account | undefined): Promise<string> {
  const file = await realpath(program)
  const { size, mtimeMs } = await stat(file)
  const content = JSON.stringify([file, size, mtimeMs, account?.uid, initdbOptions, withoutThirdCopy])
  const template = join(templates, createHash('sha256').update(content).digest('hex').slice(0, 16))
  const isThere = () =>
    stat(template).then(
      () => true,
      () => false,
    )
  if (await isThere()) return template
  await mkdir(templates, { recursive: true })
  // Made where another user may write, and then moved: no other worker copies half of it.
  const made = await mkdtemp(join(tmpdir(), 'fencepost-postgres-template-'))
  try {
    if (account !== undefined) await chown(made, account.uid, account.gid)
    const initdb = join(dirname(program), 'initdb')
    const [command, ...args] = [
      ...(account?.prefix ?? []),
      initdb,
      '-D',
      join(made, 'data'),
      '-U',
      'postgres',
    ]
    await run(command!, [...args, ...initdbOptions], { cwd: made })
    const [single, ...folder] = [...(account?.prefix ?? []), program, '--single', '-D', join(made, 'data')]
    // A server that has no other client: it reads statements, one a line, from its standard input.
    const shrinking = run(single!, [...folder, 'postgres'], { cwd: made })
    shrinking.child.stdin?.end(`${withoutThirdCopy.join('\n')}\n`)
    await shrinking
    // The temporary folder may be on another disk, from which nothing can be moved in one step.
    const beside = await mkdtemp(join(templates, 'made-'))
    try {
      await run('cp', ['-a', join(made, 'data'), beside])
      await rename(join(beside, 'data'), template).catch(async (error) => {
        if (!(await isThere())) throw error
      })
    } finally {
      await rm(beside, { recursive: true, force: true })
    }
    return template
  } finally {
    await rm(made, { recursive: true, force: true })
  }
}

export class PostgresServer implements AsyncDisposable {
  readonly port: number
  readonly folder: string
  readonly #command: readonly string[]
  readonly #pools: pg.Pool[] = []
  #process: TestProcess | undefined

  constructor(command: readonly string[], folder: string, port: number) {
    this.#command = command
    this.folder = folder
    this.port = port
  }

  /** For a process of its own. */
  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`
  }

  /** A pool on the unix socket, ended with the server. */
  pool(options: pg.PoolConfig = {}): pg.Pool {
    const pool = new pg.Pool({ ...this.#address(), max: 20, ...options })
    // Tests kill backends and servers, and judge the answers.
    pool.on('error', () => {})
    this.#pools.push(pool)
    return pool
  }

  #address() {
    return { host: this.folder, port: this.port, user: 'postgres', database: 'postgres' }
  }

  /** A connection that may end with the server. */
  #client(): pg.Client {
    const client = new pg.Client(this.#address())
    client.on('error', () => {})
    return client
  }

  /** Starts it, also after an end. */
  async start(): Promise<void> {
    const [program, ...args] = this.#command
    const process = new TestProcess(program!, args, { name: 'postgres', cwd: this.folder })
    this.#process = process
    await process.until(
      'an answer to SELECT 1',
      async () => {
        const client = this.#client()
        try {
          await client.connect()
          await client.query('SELECT 1')
          return true
        } finally {
          await client.end().catch(() => {})
        }
      },
      { withinMs: 30_000, everyMs: 25 },
    )
  }

  /** SIGKILL of the postmaster; its backends notice and end. By default a crash, `SIGINT` ends it in order. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.#process?.end({ signal })
  }

  /** SIGKILL of the backend of another client's connection. False where there was none. */
  async killBackend(): Promise<boolean> {
    const client = this.#client()
    try {
      await client.connect()
      const { rows } = await client.query<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
         ORDER BY random() LIMIT 1`,
      )
      return rows[0] !== undefined && process.kill(rows[0].pid, 'SIGKILL')
    } catch {
      // The server is recovering already, or the backend has just left.
      return false
    } finally {
      await client.end().catch(() => {})
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#pools.map((pool) => (pool.ended ? undefined : pool.end())))
    // SIGQUIT: immediate shutdown of all backends; its data is no longer needed.
    if (this.#process?.running) await this.#process.end({ signal: 'SIGQUIT' })
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

export type Account = { readonly uid: number; readonly gid: number; readonly prefix: readonly string[] }

/** Where we are root: the user `nobody`, and the command that becomes it. */
export async function unprivileged(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const id = async (flag: string) => Number((await run('id', [flag, 'nobody'])).stdout)
  const [uid, gid] = [await id('-u'), await id('-g')]
  return { uid, gid, prefix: ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'] }
}
