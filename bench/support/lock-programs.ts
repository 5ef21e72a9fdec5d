/**
 * Lock libraries of other languages, each a program of its own that takes `operations concurrency` on a line and
 * answers with the durations, or a command about one lock (`lease-profiles.ts`). Built from `bench/peers`; without the language's tools, undefined and a sentence.
 */
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { cpuSecondsOf } from './load.ts'
import type { Contender } from './rounds.ts'

const peers = join(import.meta.dirname, '../peers')

/** Longer than a round of any benchmark. */
const ANSWER_WITHIN_MS = 120_000

export type LockProgram = AsyncDisposable & {
  readonly pid: number
  readonly contender: Contender
  /** One line to the program, and the line that it answers. */
  ask(line: string): Promise<string>
}

/** redsync, the Go library that Redis lists first. */
export function startRedsync(urls: readonly string[]): LockProgram | undefined {
  const folder = join(peers, 'redsync')
  if (!built('go', ['build', '-o', 'redsync', '.'], folder)) return undefined
  return startProgram('redsync 4.18.1 (Go)', join(folder, 'redsync'), [urls.join(',')])
}

/**
 * Redisson's multi-lock, the successor of its RedLock.
 *
 * @param lease for one lock of that kind, whose program gives up a silent node after two seconds
 */
export function startRedisson(
  urls: readonly string[],
  lease?: 'multi-lock' | 'redlock',
): LockProgram | undefined {
  const folder = join(peers, 'redisson')
  if (!built('mvn', ['-q', '-B', 'package'], folder)) return undefined
  const classes = `${join(folder, 'target/redisson-locks-1.jar')}:${join(folder, 'target/lib/*')}`
  const args = ['-cp', classes, 'Locks', urls.join(','), ...(lease === undefined ? [] : [lease])]
  return startProgram('Redisson 4.7.0 multi-lock (Java)', 'java', args)
}

/** By folder. Each is built once for a run. */
const builds = new Map<string, boolean>()

function built(program: string, args: readonly string[], cwd: string): boolean {
  const before = builds.get(cwd)
  if (before !== undefined) return before
  const { status, error } = spawnSync(program, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  builds.set(cwd, status === 0)
  if (status !== 0)
    console.log(
      `left out, because ${program} ${args.join(' ')} failed in ${cwd}: ${error?.message ?? `exit ${status}`}`,
    )
  return status === 0
}

export function startProgram(name: string, command: string, args: readonly string[]): LockProgram {
  const child: ChildProcessWithoutNullStreams = spawn(command, args)
  child.stderr.pipe(process.stderr)
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const ask = async (line: string): Promise<string> => {
    child.stdin.write(`${line}\n`)
    // A program whose main thread has failed may neither answer nor end.
    const limit = setTimeout(() => child.kill('SIGKILL'), ANSWER_WITHIN_MS)
    const { value, done } = await lines.next()
    clearTimeout(limit)
    if (done === true) throw new Error(`${name} ended, or did not answer within ${ANSWER_WITHIN_MS} ms`)
    return value
  }
  return {
    pid: child.pid!,
    ask,
    contender: {
      name,
      cpuMicros: () => cpuSecondsOf([child.pid!]) * 1e6,
      run: async (operations, concurrency) =>
        JSON.parse(await ask(`${operations} ${concurrency}`)) as number[],
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await new Promise((resolve) => child.once('close', resolve))
    },
  }
}
