/**
 * Load from a process of its own, and the processor time of the processes that carry it.
 *
 *     await using load = startLoad()
 *     await load.run({ url, method: 'POST', path: '/payments', key: UNIQUE('a'), bodyBytes: 200, load: { kind: 'closed', … } })
 */
import { type ChildProcess, fork } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export type Job = {
  readonly url: string
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Keys are `prefix-0`, `prefix-1`, … and begin again after `count` of them. */
  readonly key: { readonly prefix: string; readonly count: number }
  /** Size of the JSON body of a POST, at least 44. */
  readonly bodyBytes: number
  readonly load:
    | { readonly kind: 'closed'; readonly requests: number; readonly concurrency: number }
    | { readonly kind: 'open'; readonly perSecond: number; readonly seconds: number }
}

export type JobResult = {
  readonly requests: number
  readonly seconds: number
  readonly perSecond: number
  /** Answers by status. */
  readonly statuses: Readonly<Record<string, number>>
  readonly p50Ms: number
  readonly p90Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
  readonly maxMs: number
  /** Share of requests that the generator itself sent more than a millisecond late; above 1 % the run is void. */
  readonly lateShare: number
}

export const LATE_SHARE_MAX = 0.01

export type Load = AsyncDisposable & { run(job: Job): Promise<JobResult> }

const GENERATOR = fileURLToPath(new URL('./load-generator.ts', import.meta.url))

export function startLoad(): Load {
  const child: ChildProcess = fork(GENERATOR)
  return {
    run: (job) =>
      new Promise((resolve, reject) => {
        const ended = () => reject(new Error('the load generator ended'))
        child.once('exit', ended)
        child.once('message', (message: { result: JobResult } | { error: string }) => {
          child.off('exit', ended)
          if ('result' in message) resolve(message.result)
          else reject(new Error(message.error))
        })
        child.send(job)
      }),
    async [Symbol.asyncDispose]() {
      child.disconnect()
    },
  }
}

/** Clock ticks of Linux a second; it is 100 on every architecture that Node runs on. */
const TICKS_PER_SECOND = 100

/** Seconds of processor time that processes used until now, user and system. Linux only. */
export function cpuSecondsOf(pids: readonly number[]): number {
  const ticks = pids.map((pid) => {
    // The name in parentheses may contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? []
    return Number(fields[11]) + Number(fields[12])
  })
  return ticks.reduce((sum, one) => sum + one, 0) / TICKS_PER_SECOND
}

/**
 * Microseconds of processor time of one process, all of its threads that live: to the nanosecond, where {@link cpuSecondsOf} counts
 * hundredths of a second. Threads that ended are not in it. https://docs.kernel.org/scheduler/sched-stats.html
 */
export function cpuMicrosOf(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + threadMicros(pid, thread), 0)
}

/** Zero for a thread that has ended. */
function threadMicros(pid: number, thread: string): number {
  try {
    const [ran] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')
    return Number(ran) / 1_000
  } catch {
    return 0
  }
}
