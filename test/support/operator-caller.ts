/** Calls of the operator API by a person of each role, and the file with their tokens. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Of 32 characters and more, as the file demands. */
export const VIEW_TOKEN = 'view-0123456789abcdef0123456789abcdef'
export const OPERATE_TOKEN = 'operate-0123456789abcdef0123456789ab'

export type OperatorReply = {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it
  readonly body: any
}

export function operatorTokensFile(content = `ann view ${VIEW_TOKEN}\nbob operate ${OPERATE_TOKEN}\n`) {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-operators-'))
  const path = join(folder, 'tokens')
  writeFileSync(path, content)
  return { path, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
}

/** @param origin of the operator listener */
export function operatorCaller(origin: string, token: string | undefined = OPERATE_TOKEN) {
  const call = async (path: string, body?: unknown, init: RequestInit = {}): Promise<OperatorReply> => {
    const response = await fetch(`${origin}/v1/operator${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...init,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...init.headers,
      },
    })
    return { status: response.status, headers: response.headers, body: await response.json() }
  }
  const at = (record: string) => `/records/${encodeURIComponent(record)}`
  return {
    call,
    find: (body: unknown) => call('/records/find', body),
    show: async (record: string) => (await call(at(record))).body,
    decide: (decision: string, record: string, body: Record<string, unknown> = {}) =>
      call(`${at(record)}/${decision}`, { reason: 'ticket 4711', ...body }),
  }
}
