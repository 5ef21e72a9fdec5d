/**
 * A real PgBouncer in transaction mode before a PostgreSQL server of a test, with only two server connections, so that
 * any dependence on a session shows.
 */
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { type PostgresServer, unprivileged } from './postgres-server.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'

export type PgBouncer = AsyncDisposable & { readonly port: number }

export async function startPgBouncer(server: PostgresServer): Promise<PgBouncer> {
  const program = requireProgram('pgbouncer')
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-pgbouncer-'))
  const account = await unprivileged()
  if (account !== undefined) await chown(folder, account.uid, account.gid)
  const port = await freePort()
  const file = join(folder, 'pgbouncer.ini')
  const lines = [
    '[databases]',
    `postgres = host=127.0.0.1 port=${server.port} user=postgres`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    'default_pool_size = 2',
    'max_client_conn = 200',
  ]
  await writeFile(file, `${lines.join('\n')}\n`)
  const [command, ...args] = [...(account?.prefix ?? []), program, file]
  const process = new TestProcess(command!, args, { name: 'pgbouncer', cwd: folder })
  await process.until('a listener', () => connects(port))
  return {
    port,
    async [Symbol.asyncDispose]() {
      await process.end({ signal: 'SIGQUIT' })
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function connects(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
