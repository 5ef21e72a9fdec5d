/** What every example needs around it in its test: nodes, a sidecar without a proxy, a database, and the example itself. */
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { type PostgresServer, startPostgres } from '../../test/support/postgres-server.ts'
import { TestProcess } from '../../test/support/processes.ts'
import { startRedisServers } from '../../test/support/redis-servers.ts'
import { PATIENT, startSidecar } from '../../test/support/sidecar.ts'

export type Stage = AsyncDisposable & {
  readonly pool: pg.Pool
  readonly postgres: PostgresServer
  /** Starts a program of this folder, with FENCEPOST_URL, DATABASE_URL and PORT 0 in its environment. */
  start(path: string, ...args: readonly string[]): TestProcess
  /** The same, and waits for the address that it prints. */
  serve(path: string): Promise<string>
}

/** @param schema of the example's tables */
export async function setStage(schema: string): Promise<Stage> {
  await using stack = new AsyncDisposableStack()
  const servers = stack.use(await startRedisServers(3, { founded: true }))
  const postgres = stack.use(await startPostgres())
  const sidecar = stack.use(
    await startSidecar({
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      ...PATIENT,
    }),
  )
  const pool = postgres.pool()
  await pool.query(schema)
  const env = { FENCEPOST_URL: sidecar.api, DATABASE_URL: postgres.url, PORT: '0' }
  const started: TestProcess[] = []
  const start = (path: string, ...args: readonly string[]): TestProcess => {
    const program = fileURLToPath(new URL(`../${path}`, import.meta.url))
    const child = new TestProcess(process.execPath, [program, ...args], { name: path, env })
    started.push(child)
    return child
  }
  const owned = stack.move()
  return {
    pool,
    postgres,
    start,
    serve: async (path) => {
      const [, address = ''] = await start(path).line(/^listening on (\S+)$/m, { withinMs: 30_000 })
      return address
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(started.map((child) => child.end({ signal: 'SIGKILL' })))
      await owned.disposeAsync()
    },
  }
}
