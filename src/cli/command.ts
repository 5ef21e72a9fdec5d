/**
 * A command of the command line: a function of its arguments and its environment to an exit code.
 *
 * A command lives in its own file `cli/<name>.ts`, exports such a function, and has one line in `program.ts`. It reads
 * its arguments with commander through `withArguments`, and never touches `process`: `Io` has what it needs.
 */

import type { Writable } from 'node:stream'
import { CommanderError, Command as Parser } from 'commander'
import type { AppEnvironment } from '../app.ts'
import { describeErrors } from '../config/errors.ts'
import type { Environment, LoadedConfig } from '../config/load.ts'
import type { ReadFile } from '../config/value.ts'

export type Io = {
  readonly env: Environment
  readonly stdout: Writable
  /** The same standard output, for the log of a sidecar: what it does not take is lost. */
  readonly logTo: AppEnvironment['logTo']
  readonly stderr: Writable
  /** Whole file, as `textOf` reads it; throws with a sentence if it can't be read. */
  readonly readFile: ReadFile
  /** The same as it is: what is no text has no text. */
  readonly readBytes: (path: string) => Buffer
  readonly signals: Signals
  /** Of this package. */
  readonly version: string
  /** Of Node.js, without `v`. */
  readonly nodeVersion: string
  /** The oldest version of Node.js that runs it. */
  readonly oldestNode: string
  /** The options of Node itself, `NODE_OPTIONS` included. */
  readonly nodeOptions: readonly string[]
  /** Name of this machine; in Kubernetes the name of the pod. */
  readonly hostname: string
  /** Of the container (cgroup); undefined if it has none. */
  readonly memoryLimitBytes?: number | undefined
  /** What is still open when the command is over is known, and can't be closed: the process does not wait for it. */
  readonly leaveOpen: () => void
  /** Messages of a parent process that started this one: the demonstration and tests. */
  readonly onParentMessage: (listener: (message: unknown) => void) => void
}

interface Signals {
  /** From now on these signals no longer end the process; the returned function removes the listener. */
  onStop(listener: (signal: StopSignal) => void): () => void
  /** SIGUSR2: the pod of this process is about to end. */
  onLeave(listener: () => void): void
}

export type StopSignal = 'SIGTERM' | 'SIGINT' | 'SIGHUP'

/** sysexits(3), as far as we use it. */
export const EXIT = { ok: 0, failure: 1, usage: 64, unavailable: 69, configuration: 78 } as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Why a command can't go on, and its exit code. */
export function refused(io: Pick<Io, 'stderr'>, sentence: string, code: ExitCode = EXIT.usage): ExitCode {
  io.stderr.write(`${sentence}\n`)
  return code
}

/** How every command reports a refused configuration. */
export function refusedConfig({ errors }: LoadedConfig & { readonly kind: 'invalid' }, io: Io): ExitCode {
  return refused(io, describeErrors(errors), EXIT.configuration)
}

/** For the audit log and the trail on the nodes. */
export function whoDecides(by: string | undefined, { env, hostname }: Io): string {
  return by ?? `${env.USER ?? 'somebody'}@${hostname}`
}

/** A file has several tokens while they are rotated, and any of them works: the first is sent. */
export function tokenIn(content: string): string {
  return content.trim().split(/\s*\n/)[0] ?? ''
}

/** Checked before sending: the code that refuses it later may quote it. RFC 9110, section 5.5. */
export function faultOfToken(token: string | undefined): string | undefined {
  if (token === undefined || /^[\t\x20-\x7e\x80-\xff]*$/.test(token)) return undefined
  return 'the token (its file, first line) has a character that no header takes; it is not shown here'
}

/** For an option: the file's first token, or a sentence if the file cannot be read, or no header takes the token. */
export function tokenAt(path: string | undefined, io: Io): { token: string | undefined } | { fault: string } {
  if (path === undefined) return { token: undefined }
  try {
    const token = tokenIn(io.readFile(path))
    const fault = faultOfToken(token)
    return fault === undefined ? { token } : { fault }
  } catch (cause) {
    const { code, message } = cause as { code?: string; message?: string }
    return { fault: `--token-file ${path} cannot be read: ${code ?? message}` }
  }
}

export const DEFAULT_ADMIN = 'http://127.0.0.1:9090'

/** A sentence if one of them is no address; none has a user and a password, and what could be one is not shown. */
export function faultOfAddress(
  option: string,
  addresses: readonly (string | undefined)[],
): string | undefined {
  const bad = addresses.find((address) => address !== undefined && !isAddress(address))
  if (bad === undefined) return undefined
  const shown = bad.replace(/^(https?:\/\/)?.*@/i, '$1…@')
  return `${option} ${shown} is not accepted; accepted is an address such as http://127.0.0.1:8081, without a user`
}

function isAddress(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
}

export type Command = (args: readonly string[], io: Io) => Promise<ExitCode>

/**
 * Reads `args` by the parser that `define` describes and runs the action that it returned.
 *
 * @param define adds options, arguments and subcommands; an action gives its exit code to `done`.
 */
export async function withArguments(
  name: string,
  args: readonly string[],
  io: Io,
  define: (parser: Parser, done: (code: ExitCode) => void) => void,
): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT.ok
  const parser = new Parser(`fencepost ${name}`.trim())
  const output = {
    writeOut: (text: string) => void io.stdout.write(text),
    writeErr: (text: string) => void io.stderr.write(text),
  }
  parser.configureOutput(output).exitOverride().showHelpAfterError('(add --help for what is accepted)')
  define(parser, (code) => {
    exitCode = code
  })
  try {
    await parser.parseAsync(args, { from: 'user' })
  } catch (cause) {
    // Commander has already written its sentence; a request for help or the version is no failure.
    if (cause instanceof CommanderError) return cause.exitCode === 0 ? EXIT.ok : EXIT.usage
    throw cause
  }
  return exitCode
}
