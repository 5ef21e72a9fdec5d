/**
 * The application's answer as JSON: `{"status": 201, "headers": {"Location": "/things/1"}, "body_base64": "…"}`.
 *
 * Owns the form, for everyone who reports an answer that the sidecar did not see: a gateway, and the application when it
 * is asked what became of an attempt. What is stored of it is the caller's decision.
 *
 * A Content-Length in it is left out: a duplicate would wait for as many bytes as it states, and gets those of the body.
 */

import type { HeaderList } from '../../core/header-list.ts'

export type ReportedAnswer = {
  readonly status: number
  readonly headers: HeaderList
  /** Absent if it was not kept: then duplicates are refused and not replayed. */
  readonly body: Buffer | undefined
}

/** Undefined where `given` has not the form. */
export function reportedAnswerIn(given: unknown): ReportedAnswer | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  const { status, headers = {}, body_base64: body } = given as Record<string, unknown>
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599)
    return undefined
  if (typeof headers !== 'object' || headers === null) return undefined
  if (body !== undefined && typeof body !== 'string') return undefined
  const lines: [string, string][] = []
  for (const [name, value] of Object.entries(headers)) {
    if (name.toLowerCase() === 'content-length') continue
    for (const line of Array.isArray(value) ? value : [value]) {
      if (typeof line !== 'string') return undefined
      lines.push([name, line])
    }
  }
  if (body === undefined) return { status, headers: lines, body }
  const decoded = Buffer.from(body, 'base64')
  // Node decodes what it can, and skips the rest.
  return withoutPadding(decoded.toString('base64')) === withoutPadding(body)
    ? { status, headers: lines, body: decoded }
    : undefined
}

function withoutPadding(base64: string): string {
  return base64.replace(/={1,2}$/, '')
}
