/**
 * How a command of an operator ends: as text for people or as JSON for scripts, with the exit codes of
 * docs/operations/one-key.md.
 *
 * Owns what every decision takes, wherever it is sent: a reason, and --yes to carry it out.
 */

import type { Command as Parser } from 'commander'
import { EXIT, type ExitCode, type Io } from './command.ts'
import { CallRefused } from './operator-client.ts'

/** What a command prints, and its exit code. */
export type Printed = { readonly exit: ExitCode; readonly reply: unknown; readonly text: string }

export type Deciding = { readonly reason?: string; readonly yes?: true; readonly json?: true }

/** As the operator API takes it. */
export const REASON_CHARS = { min: 3, max: 500 } as const

export function reasoned(parser: Parser): Parser {
  return parser
    .option('--reason <text>', 'why, for the audit log; required')
    .option('--yes', 'do it; without it the command says what would happen')
}

/** @throws CallRefused without one that the audit log takes */
export function reasonGiven({ reason }: Deciding): string {
  if (reason === undefined) throw new CallRefused('Why? Give --reason "ticket 4711: …".', EXIT.usage)
  const { min, max } = REASON_CHARS
  const chars = [...reason].length
  if (chars >= min && chars <= max) return reason
  throw new CallRefused(`--reason has ${chars} characters; accepted are ${min} to ${max}.`, EXIT.usage)
}

/** @param act gives what is printed, or an exit code where everything is said */
export async function printed(
  { json }: Pick<Deciding, 'json'>,
  io: Io,
  act: () => Promise<Printed | ExitCode>,
): Promise<ExitCode> {
  try {
    const answer = await act()
    if (typeof answer === 'number') return answer
    io.stdout.write(json ? `${JSON.stringify(answer.reply)}\n` : answer.text)
    return answer.exit
  } catch (cause) {
    if (!(cause instanceof CallRefused)) throw cause
    if (json && cause.document.code !== undefined) io.stdout.write(`${JSON.stringify(cause.document)}\n`)
    io.stderr.write(`${cause.message}\n`)
    return cause.exitCode
  }
}
