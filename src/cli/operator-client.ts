/**
 * Calls of the operator API from the command line: one request, one answer, and the exit code of a refusal.
 *
 * Owns what a refusal looks like on a terminal.
 */

import type { Command as Parser } from 'commander'
import { EXIT, type ExitCode, faultOfAddress, type Io, refused, tokenAt } from './command.ts'
import { printable } from './terminal.ts'

/** A dry run, the decision and its two looks at five nodes; far above any healthy answer. */
const TIMEOUT_MS = 30_000

export type Reply = Readonly<Record<string, unknown>>

export type Where = { readonly operator?: string; readonly tokenFile?: string }

export type OperatorClient = {
  /** @throws CallRefused */
  call(method: 'GET' | 'POST', path: string, body?: unknown): Promise<Reply>
}

/** The listener refused, or did not answer. */
export class CallRefused extends Error {
  override readonly name = 'CallRefused'
  readonly exitCode: ExitCode
  readonly document: Reply

  constructor(message: string, exitCode: ExitCode, document: Reply = {}) {
    super(message)
    this.exitCode = exitCode
    this.document = document
  }
}

/** The client, or the exit code after the sentence that says what is missing. */
export function operatorClient({ operator, tokenFile }: Where, io: Io): OperatorClient | ExitCode {
  const address = operator ?? ownListener(io)
  if (address === undefined || tokenFile === undefined) {
    const missing = address === undefined ? '--operator http://127.0.0.1:8083' : '--token-file PATH'
    return refused(io, `Which listener, and as whom? Give ${missing}.`)
  }
  const fault = faultOfAddress('--operator', [address])
  if (fault !== undefined) return refused(io, fault)
  const read = tokenAt(tokenFile, io)
  if ('fault' in read) return refused(io, read.fault, EXIT.configuration)
  const base = address.replace(/\/+$/, '')
  return { call: (method, path, body) => call(base + path, read.token ?? '', method, body) }
}

/** In the pod of the sidecar the command has its settings. */
function ownListener({ env }: Io): string | undefined {
  const at = env.FENCEPOST_OPERATOR_LISTEN
  if (at === undefined || at === 'off' || at.startsWith('unix:')) return undefined
  const secure = env.FENCEPOST_TLS_LISTENERS?.split(',').some((name) => name.trim() === 'operator')
  return `${secure && env.FENCEPOST_TLS_CERT_FILE !== undefined ? 'https' : 'http'}://${at}`
}

async function call(url: string, token: string, method: string, body: unknown): Promise<Reply> {
  const { origin } = new URL(url)
  let status: number
  let text: string
  try {
    const response = await fetch(url, {
      method,
      // A token is for this address alone.
      redirect: 'error',
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    status = response.status
    text = await response.text()
  } catch (cause) {
    const reason = cause instanceof Error ? ((cause.cause as Error | undefined) ?? cause) : cause
    const why = reason instanceof Error ? reason.message : String(reason)
    const doubt = decides(body) && !NEVER_SENT.has((reason as { code?: string }).code ?? '') ? DOUBT : ''
    throw new CallRefused(`no answer from ${origin}: ${why}.${doubt}`, EXIT.unavailable)
  }
  const document = documentIn(text)
  const { code, detail } = document ?? {}
  // The page of a gateway in between, which may have had the listener's answer; or the address of another listener.
  if (document === undefined || (status !== 200 && typeof code !== 'string'))
    throw new CallRefused(
      `${origin} answered with status ${status} and not as an operator listener does: look at the address, and at what stands between. Whether the call took effect is not known.`,
      EXIT.unavailable,
    )
  if (status === 200) return document
  const sentence = `${code}: ${typeof detail === 'string' ? detail : ''}`
  throw new CallRefused(printable(sentence), status >= 500 ? EXIT.unavailable : EXIT.failure, document)
}

/** There was no connection. */
const NEVER_SENT: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

const DOUBT = ' It is not known whether it was decided: look at the record before you decide again.'

/** Every decision has a reason; a dry run changes nothing. */
function decides(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'reason' in body && !('dry_run' in body)
}

function documentIn(text: string): Reply | undefined {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === 'object' && parsed !== null ? (parsed as Reply) : undefined
  } catch {
    return undefined
  }
}

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

/**
 * A dead letter is decided as a record is: shown first, and done with --yes alone.
 *
 * @param decide makes the decision, or with `dryRun` says what it would mean; the reply is that of the operator API
 * @throws CallRefused
 */
export async function deadLetterDecided(
  act: 'requeue' | 'discard',
  { yes }: Pick<Deciding, 'yes'>,
  decide: (dryRun: boolean) => Promise<Reply>,
): Promise<Printed> {
  const plan = await decide(true)
  const lines = (plan.effects as readonly string[]).map((effect) => `  ${effect}\n`).join('')
  if (!yes) {
    const text = `${act} would mean:\n${lines}Nothing was decided. To do it, add --yes.\n`
    return { exit: EXIT.usage, reply: plan, text }
  }
  const reply = await decide(false)
  return reply.decided === true
    ? { exit: EXIT.ok, reply, text: `${act}: done\n${lines}` }
    : {
        exit: EXIT.failure,
        reply,
        text: `${act}: not decided, its record has moved on (${String(reply.because)}). The entry is dropped.\n`,
      }
}
