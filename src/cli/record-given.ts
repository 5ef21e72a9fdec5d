/**
 * What a command of `fencepost records` is given: which record is meant, and with which outcome it is completed.
 *
 * Owns that both are said once. Of two records or of two outcomes neither is taken, because a decision about the wrong one lets a
 * request be executed again.
 */

import { EXIT, type Io } from './command.ts'
import { CallRefused, type Deciding as Reasoned, type Where } from './operator-client.ts'

export type Which = Where & {
  readonly tenant?: string
  readonly apiVersion?: string
  readonly method: string
  readonly path?: string
  readonly key?: string
  readonly principal?: string
  readonly client?: string
  readonly authorizationFile?: string
  readonly requestFile?: string
  readonly value?: string
  readonly entity?: string
  readonly reservation?: string
  readonly json?: true
}

export type Deciding = Which &
  Reasoned & {
    readonly evenThough?: string
    readonly fencingToken?: number
    readonly status?: string
    readonly header?: readonly string[]
    readonly bodyFile?: string
    readonly resultFile?: string
    readonly notKept?: true
    readonly completed?: true
  }

export function locator(reference: string | undefined, options: Which, io: Io): Record<string, unknown> {
  const { tenant, apiVersion, path, key, method, principal, client, authorizationFile } = options
  // What is not given is not sent: JSON leaves it out.
  const scope = { tenant, api_version: apiVersion }
  const { requestFile, value, entity, reservation } = options
  const names = [reference, path ?? key, requestFile, value, entity, reservation]
  // A decision about the one of them that comes first in this code would be one that nobody asked for.
  if (names.filter((name) => name !== undefined).length > 1)
    throw new CallRefused(
      'Which record? Two of them are named: give a reference, or --path and --key, or one of --request-file, --value, --entity and --reservation.',
      EXIT.usage,
    )
  if (reference !== undefined) return { ...scope, reference }
  if (path !== undefined && key !== undefined) {
    const authorization = authorizationFile === undefined ? undefined : textAt(authorizationFile, io).trim()
    return { ...scope, key: { method, path, idempotency_key: key, principal, client, authorization } }
  }
  if (requestFile !== undefined) return { ...scope, request: jsonAt(requestFile, io) }
  if (value !== undefined) return { ...scope, reserved_value: value }
  if (entity !== undefined) return { ...scope, entity }
  if (reservation !== undefined) return { ...scope, reservation_id: reservation }
  throw new CallRefused(
    'Which record? Give a reference, --path and --key, --request-file, --value, --entity or --reservation.',
    EXIT.usage,
  )
}

export function outcomeOf({ notKept, resultFile, status, header = [], bodyFile }: Deciding, io: Io) {
  const answered = status ?? bodyFile ?? header[0]
  if ([notKept, resultFile, answered].filter((one) => one !== undefined).length > 1)
    throw new CallRefused(
      'With which of them? Give --status (with --header and --body-file), or --result-file, or --not-kept.',
      EXIT.usage,
    )
  if (notKept) return { not_kept: true }
  if (resultFile !== undefined) return { result: jsonAt(resultFile, io) }
  if (status === undefined)
    throw new CallRefused(
      'With what? Give --status (and --body-file), --result-file or --not-kept.',
      EXIT.usage,
    )
  // As bytes: what is no text would come to the client as another answer.
  const body = bodyFile === undefined ? {} : { body_base64: bytesAt(bodyFile, io).toString('base64') }
  return { answer: { status: Number(status), headers: headersOf(header), ...body } }
}

function headersOf(lines: readonly string[]): Readonly<Record<string, string>> {
  const headers = new Map<string, string>()
  for (const line of lines) {
    const [, name, value] = /^([^:\s]+):(.*)$/s.exec(line) ?? []
    if (name === undefined || value === undefined)
      throw new CallRefused(
        `--header ${JSON.stringify(line)} is not accepted; accepted is "name: value"`,
        EXIT.usage,
      )
    const lower = name.toLowerCase()
    if (headers.has(lower))
      throw new CallRefused(`--header ${name} is given twice; put its values into one line`, EXIT.usage)
    headers.set(lower, value.trim())
  }
  return Object.fromEntries(headers)
}

function bytesAt(path: string, io: Io): Buffer {
  try {
    return io.readBytes(path)
  } catch (cause) {
    throw new CallRefused(`${path} can not be read: ${(cause as Error).message}`, EXIT.usage)
  }
}

function textAt(path: string, io: Io): string {
  try {
    return io.readFile(path)
  } catch (cause) {
    throw new CallRefused(`${path} can not be read: ${(cause as Error).message}`, EXIT.usage)
  }
}

function jsonAt(path: string, io: Io): unknown {
  const text = textAt(path, io)
  try {
    return JSON.parse(text)
  } catch {
    throw new CallRefused(`${path} is no JSON`, EXIT.usage)
  }
}
