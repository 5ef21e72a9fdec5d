/**
 * Lock libraries of other languages, each a program of its own that takes `operations concurrency` on a line and
 * answers with the durations. Built from `bench/peers`; without the language's tools, undefined and a sentence.
 */
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { cpuSecondsOf } from './load.ts'
import type { Contender } from './rounds.ts'

const peers = join(import.meta.dirname, '../peers')

export type LockProgram = AsyncDisposable & { readonly contender: Contender }

/** redsync, the Go library that Redis lists first. */
export function startRedsync(urls: readonly string[]): LockProgram | undefined {
  const folder = join(peers, 'redsync')
  if (!built('go', ['build', '-o', 'redsync', '.'], folder)) return undefined
  return start('redsync 4.18.1 (Go)', join(folder, 'redsync'), [urls.join(',')])
}

/** Redisson's multi-lock, the successor of its RedLock. */
export function startRedisson(urls: readonly string[]): LockProgram | undefined {
  const folder = join(peers, 'redisson')
  if (!built('mvn', ['-q', '-B', 'package'], folder)) return undefined
  const classes = `${join(folder, 'target/redisson-locks-1.jar')}:${join(folder, 'target/lib/*')}`
  return start('Redisson 4.7.0 multi-lock (Java)', 'java', ['-cp', classes, 'Locks', urls.join(',')])
}

function built(program: string, args: readonly string[], cwd: string): boolean {
  const { status, error } = spawnSync(program, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status === 0) return true
  console.log(
    `left out, because ${program} ${args.join(' ')} failed in ${cwd}: ${error?.message ?? `exit ${status}`}`,
  )
  return false
}

function start(name: string, command: string, args: readonly string[]): LockProgram {
  const child: ChildProcessWithoutNullStreams = spawn(command, args)
  child.stderr.pipe(process.stderr)
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  return {
    contender: {
      name,
      cpuMicros: () => cpuSecondsOf([child.pid!]) * 1e6,
      async run(operations, concurrency) {
        child.stdin.write(`${operations} ${concurrency}\n`)
        const { value, done } = await lines.next()
        if (done === true) throw new Error(`${name} ended`)
        return JSON.parse(value) as number[]
      },
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await new Promise((resolve) => child.once('close', resolve))
    },
  }
}
