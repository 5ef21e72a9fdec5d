/**
 * Child processes of a test: started, watched by their output or over HTTP, and ended by `await using`, at the latest
 * when the test process exits. It ends only processes that it started.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { eventually, type Patience } from './eventually.ts'
import { MAIN_PROGRAM } from './main-program.ts'

/** Enough for a stack trace and the lines before it; a chatty server must not fill the memory of the test run. */
const outputCharsMax = 64 * 1024

const repository = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

export type ProcessOptions = {
  /** Its name in failure messages; default: the command. */
  readonly name?: string
  /** Added to the environment of the test; undefined removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly cwd?: string
  /** Gets its output as it comes: for output that is longer than the kept part. */
  readonly onOutput?: (text: string) => void
}

export type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null }

const living = new Set<ChildProcess>()

/** What a test that timed out left behind: it goes on beside the tests that follow. @returns how many there were */
export function endLeftProcesses(): number {
  for (const child of living) child.kill('SIGKILL')
  return living.size
}

// The last resort where a test process ends without disposing. Vitest ends its workers with SIGTERM, which Node takes as no exit; a
// SIGKILL of the test process itself is beyond it.
process.once('exit', endLeftProcesses)
process.once('SIGTERM', () => {
  // A program that has more to do at its end does it itself.
  if (process.listenerCount('SIGTERM') === 0) process.exit(143)
})

const STOPPED_WITHIN_MS = 1_000

/** Whether the kernel has stopped each of its threads; true where it does not tell. */
function isStopped(pid: number): boolean {
  try {
    const tasks = `/proc/${pid}/task`
    return readdirSync(tasks).every((task) =>
      /\) [TtZX] /.test(readFileSync(`${tasks}/${task}/stat`, 'latin1')),
    )
  } catch (error) {
    // A thread that ends while it is read: the next look has no such thread. Without /proc nothing is known.
    return !existsSync('/proc/self') || (error as NodeJS.ErrnoException).code !== 'ENOENT'
  }
}

export class TestProcess implements AsyncDisposable {
  readonly name: string
  readonly exited: Promise<Exit>
  readonly #child: ChildProcess
  #exit: Exit | undefined
  #output = ''
  #failure: Error | undefined

  constructor(command: string, args: readonly string[], options: ProcessOptions = {}) {
    this.name = options.name ?? command
    const child = spawn(command, args, {
      cwd: options.cwd ?? repository,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child = child
    living.add(child)
    const keep = (text: string) => {
      this.#output = (this.#output + text).slice(-outputCharsMax)
      options.onOutput?.(text)
    }
    child.stdout.setEncoding('utf8').on('data', keep)
    child.stderr.setEncoding('utf8').on('data', keep)
    this.exited = new Promise((resolve) => {
      const ended = (exit: Exit) => {
        living.delete(child)
        this.#exit = exit
        resolve(exit)
      }
      child.once('error', (error) => {
        this.#failure = error
        if (child.pid === undefined) ended({ code: null, signal: null })
      })
      // `close` and not `exit`: by then the output is complete.
      child.once('close', (code, signal) => ended({ code, signal }))
    })
  }

  /** Throws where the program could not be started at all. */
  get pid(): number {
    if (this.#child.pid === undefined) throw new Error(this.#report('could not be started'))
    return this.#child.pid
  }

  get running(): boolean {
    return this.#exit === undefined && this.#child.pid !== undefined
  }

  /** Its stdout and stderr, in the order of arrival; the oldest part is dropped beyond 64 KiB. */
  get output(): string {
    return this.#output
  }

  /** Waits for a line that matches, in past or future output. */
  async line(pattern: RegExp, patience?: Patience): Promise<RegExpExecArray> {
    return this.until(
      `a line like ${pattern}`,
      () =>
        this.#output
          .split('\n')
          .map((line) => pattern.exec(line))
          .find((match) => match !== null),
      patience,
    )
  }

  /** Waits until a GET of `url` is answered with `status`. */
  async http(url: string, status = 200, patience?: Patience): Promise<void> {
    await this.until(
      `GET ${url} to answer ${status}`,
      async () => {
        const response = await fetch(url, { signal: AbortSignal.timeout(1_000) })
        await response.body?.cancel()
        return response.status === status
      },
      patience,
    )
  }

  /** Waits for a condition, and fails at once, with the output, when the process ends first. */
  async until<T>(sentence: string, condition: () => T | Promise<T>, patience: Patience = {}) {
    try {
      const result = await eventually(
        sentence,
        async () => {
          // Read first: actions of the process before its end still count.
          const { running } = this
          try {
            const answer = await condition()
            if (answer || running) return answer && { answer }
          } catch (error) {
            if (running) throw error
          }
          return { ended: true as const }
        },
        { withinMs: 15_000, ...patience },
      )
      if ('answer' in result) return result.answer as Exclude<T, false | null | undefined | 0 | ''>
    } catch (error) {
      throw new Error(this.#report(`${(error as Error).message}`), { cause: error })
    }
    await this.exited
    throw new Error(this.#report(`ended before there was ${sentence}`))
  }

  /** Stops reading its output: later writes meet a closed pipe. */
  deafen(): void {
    this.#child.stdout?.destroy()
    this.#child.stderr?.destroy()
  }

  /** After SIGSTOP it stands still: a thread of it on the other core would answer one more message. */
  signal(signal: NodeJS.Signals): void {
    if (!this.running) return
    this.#child.kill(signal)
    const untilMs = performance.now() + STOPPED_WITHIN_MS
    while (signal === 'SIGSTOP' && !isStopped(this.pid) && performance.now() < untilMs);
  }

  /** Sends `signal` and waits; a process that has not ended within `withinMs` is killed and reported. */
  async end({ signal = 'SIGTERM' as NodeJS.Signals, withinMs = 15_000 } = {}): Promise<Exit> {
    if (!this.running) return this.exited
    // A stopped process (SIGSTOP) would keep the signal pending for ever.
    this.#child.kill(signal)
    this.#child.kill('SIGCONT')
    const overdue = eventually('its end', () => !this.running, { withinMs, everyMs: 50 }).catch(
      () => 'overdue',
    )
    if ((await Promise.race([this.exited, overdue])) !== 'overdue') return this.exited
    this.#child.kill('SIGKILL')
    await this.exited
    throw new Error(this.#report(`did not end within ${withinMs} ms of ${signal} and was killed`))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end()
  }

  #report(what: string): string {
    const exit = this.#exit === undefined ? '' : ` (exit ${this.#exit.signal ?? this.#exit.code})`
    const failure = this.#failure === undefined ? '' : `\n${this.#failure.message}`
    return `${this.name}${exit}: ${what}${failure}\n--- its output:\n${this.#output.trimEnd() || '(none)'}\n---`
  }
}

/** Starts the sidecar, or a command of it, as an operator would: `startFencepost(['serve'], { env: { FENCEPOST_UPSTREAM: … } })`. */
export function startFencepost(args: readonly string[], options: ProcessOptions = {}): TestProcess {
  return new TestProcess(process.execPath, [MAIN_PROGRAM, ...args], {
    name: `fencepost ${args.join(' ')}`,
    ...options,
  })
}
