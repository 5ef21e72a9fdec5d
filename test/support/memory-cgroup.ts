/**
 * A memory limit as a container has it: a cgroup of its own, for a process that a test starts. Needs root, and a hierarchy that it
 * may write to; `whyNone` says which of them is missing.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from './eventually.ts'

export type MemoryCgroup = AsyncDisposable & {
  /** A process that writes its id here is limited from then on. */
  readonly procs: string
  /** The largest that its processes used together, page cache included. */
  peakBytes(): number
  /** How often the kernel killed one of them for lack of memory. */
  kills(): number
}

const V1 = '/sys/fs/cgroup/memory'
const V2 = '/sys/fs/cgroup'

let made = 0

/** @returns a sentence where this machine does not allow it */
export function memoryCgroup(limitBytes: number): MemoryCgroup | string {
  const version = existsSync(join(V1, 'memory.limit_in_bytes')) ? 1 : 2
  if (version === 2 && !existsSync(join(V2, 'cgroup.controllers')))
    return 'there is no cgroup hierarchy at /sys/fs/cgroup'
  made += 1
  const folder = join(version === 1 ? V1 : V2, `fencepost-test-${process.pid}-${made}`)
  const file = (name: string) => join(folder, name)
  const names =
    version === 1
      ? { limit: 'memory.limit_in_bytes', peak: 'memory.max_usage_in_bytes', kills: 'memory.oom_control' }
      : { limit: 'memory.max', peak: 'memory.peak', kills: 'memory.events' }
  try {
    mkdirSync(folder)
    writeFileSync(file(names.limit), String(limitBytes))
  } catch (cause) {
    if (existsSync(folder)) rmdirSync(folder)
    return `no cgroup with a memory limit could be made: ${(cause as Error).message} (it takes root, and the controller memory)`
  }
  return {
    procs: file('cgroup.procs'),
    peakBytes: () => Number(readFileSync(file(names.peak), 'utf8')),
    kills: () => Number(/^oom_kill (\d+)/m.exec(readFileSync(file(names.kills), 'utf8'))?.[1] ?? 0),
    [Symbol.asyncDispose]: () =>
      // The kernel lets go of a process a moment after it has ended.
      eventually('the cgroup to be empty', () => {
        try {
          rmdirSync(folder)
          return true
        } catch {
          return false
        }
      }).then(() => {}),
  }
}

/** `command`, in a cgroup from its start on: Node reads at its start how much memory there is. @param procs the file of that name, if any */
export function startedIn(
  procs: string | undefined,
  command: readonly [string, ...string[]],
): readonly [string, ...string[]] {
  return procs === undefined ? command : ['sh', '-c', 'echo $$ > "$0"; exec "$@"', procs, ...command]
}
