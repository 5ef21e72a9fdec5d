/**
 * Calls of the operator API from the command line: one request, one answer, and the exit code of a refusal.
 *
 * Owns what a refusal looks like on a terminal.
 */

import { EXIT, type ExitCode, faultOfAddress, faultOfToken, type Io, tokenAt } from './command.ts'
import { printable } from './printable.ts'

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
    io.stderr.write(`Which listener, and as whom? Give ${missing}.\n`)
    return EXIT.usage
  }
  const fault = faultOfAddress('--operator', [address])
  if (fault !== undefined) {
    io.stderr.write(`${fault}\n`)
    return EXIT.usage
  }
  const read = tokenAt(tokenFile, io)
  const unusable = 'fault' in read ? read.fault : faultOfToken(read.token)
  if ('fault' in read || unusable !== undefined) {
    io.stderr.write(`${unusable}\n`)
    return EXIT.configuration
  }
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
