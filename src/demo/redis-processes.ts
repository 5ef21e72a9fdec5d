/**
 * Five real Redis or Valkey processes for the demonstration, each on its own socket and folder, removed afterwards.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { freePorts } from './free-ports.ts'

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
