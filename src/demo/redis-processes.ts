/**
 * Five real Redis or Valkey processes for the demonstration, each on its own socket and folder, removed afterwards.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'

const PROGRAMS = ['redis-server', 'valkey-server'] as const

export type RedisProcesses = AsyncDisposable & {
  readonly program: string
  readonly urls: readonly string[]
  kill(index: number): Promise<void>
}

/** The first redis-server or valkey-server on the search path. */
export function findRedisProgram(searchPath: string): string | undefined {
  for (const folder of searchPath.split(delimiter)) {
    for (const program of PROGRAMS)
      if (folder !== '' && existsSync(join(folder, program))) return join(folder, program)
  }
  return undefined
}

export async function startRedisProcesses(program: string, count: number): Promise<RedisProcesses> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-demo-'))
  const ports = await freePorts(count)
  const children = ports.map((port) => {
    const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder]
    const memory = ['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction']
    return spawn(program, [...place, ...memory, '--loglevel', 'warning'], { stdio: 'ignore' })
  })
  return {
    program,
    urls: ports.map((port) => `redis://127.0.0.1:${port}`),
    kill: (index) => end(children[index]!),
    [Symbol.asyncDispose]: async () => {
      await Promise.all(children.map(end))
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** Linux gives clients ports from 32768 on (ip(7), ip_local_port_range), others from 49152. */
const FIRST_PORT = 12_000
const END_PORT = 32_000

/**
 * Ports that no client is given by the system: one of those could be taken by a connection before its server listens.
 * Opens all before it closes any, so that no port is given twice.
 */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = []
  while (servers.length < count) {
    const server = createServer()
    const listening = new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).once('listening', () => resolve(true))
    })
    server.listen(randomInt(FIRST_PORT, END_PORT), '127.0.0.1')
    if (await listening) servers.push(server)
  }
  return servers.map((server) => {
    const address = server.address()
    server.close()
    if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
    return address.port
  })
}
