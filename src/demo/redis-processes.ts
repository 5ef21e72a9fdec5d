/**
 * Five real Redis or Valkey processes for the demonstration, each on its own port, with a folder that is removed
 * afterwards and a password that nobody else knows.
 */

import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { Readable } from 'node:stream'

/** In the log of both, at the default level. */
const READY = 'Ready to accept connections'

const PROGRAMS = ['redis-server', 'valkey-server'] as const

export type RedisProcesses = Awaited<ReturnType<typeof startRedisProcesses>>

/** The first redis-server or valkey-server on the search path. */
export function findRedisProgram(searchPath: string): string | undefined {
  for (const folder of searchPath.split(delimiter)) {
    for (const program of PROGRAMS)
      if (folder !== '' && existsSync(join(folder, program))) return join(folder, program)
  }
  return undefined
}

/**
 * @throws Error with the server's own words where one ends before it takes connections, for example because another
 * program took its port first
 */
export async function startRedisProcesses(program: string, count: number) {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-demo-'))
  const ports = await freePorts(count)
  // Only this demonstration speaks to its nodes, and to no other node: a server of somebody else that listens on a
  // port first, or a sidecar of somebody else that had a node there, is refused.
  const password = randomBytes(16).toString('hex')
  const children = ports.map((port) => {
    const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--requirepass', password]
    const memory = ['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction']
    return spawn(program, [...place, ...memory], { stdio: ['ignore', 'pipe', 'inherit'] })
  })
  const processes = {
    program,
    urls: ports.map((port) => `redis://:${password}@127.0.0.1:${port}`),
    kill: (index: number) => end(children[index]!),
    [Symbol.asyncDispose]: async () => {
      await Promise.all(children.map(end))
      await rm(folder, { recursive: true, force: true })
    },
  }
  try {
    await Promise.all(children.map(ready))
  } catch (cause) {
    await processes[Symbol.asyncDispose]()
    throw cause
  }
  return processes
}

/** Until it says that it takes connections; what it says later is read and dropped, so that it never waits for a reader. */
function ready(child: ChildProcessByStdio<null, Readable, null>): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (said.includes(READY)) return
      said += text
      if (said.includes(READY)) resolve()
    })
    child.once('error', reject)
    child.once('close', (code, signal) =>
      reject(
        new Error(
          `${child.spawnfile} ended (${signal ?? `exit code ${code}`}) before it took connections: ${said}`,
        ),
      ),
    )
  })
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/**
 * Below those that the system gives to clients (Linux from 32768 on, ip_local_port_range in ip(7); others from 49152):
 * a connection of any program could take one of those before its server listens. The tests have those from END_PORT on
 * for theirs: where one stops a server for a while, no demonstration beside it may take its port.
 */
const FIRST_PORT = 12_000
export const END_PORT = 16_000

const ATTEMPTS_MAX = 200

/** Opens all before it closes any, so that no port is given twice. */
export async function freePorts(count: number): Promise<number[]> {
  const taken = new Map<number, Server>()
  for (let attempt = 0; taken.size < count; attempt += 1) {
    if (attempt === ATTEMPTS_MAX)
      throw new Error(
        `${taken.size} of ${count} free TCP ports found on 127.0.0.1 between ${FIRST_PORT} and ${END_PORT} in ${ATTEMPTS_MAX} attempts`,
      )
    const port = randomInt(FIRST_PORT, END_PORT)
    const server = createServer()
    const listens = new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    if (await listens) taken.set(port, server)
  }
  for (const server of taken.values()) server.close()
  return [...taken.keys()]
}
