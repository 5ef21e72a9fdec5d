/** What the crossings send, and what they read of the answers. */
import { request } from 'undici'
import type { Sidecar } from '../support/sidecar.ts'

/** A waiting request is answered within this, on a busy machine too. */
const WITHIN_MS = 60_000

export type Answered = {
  readonly status: number
  /** `Idempotency-Status`. */
  readonly says: string
  readonly code: string
  readonly bytes: Buffer
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

export type Sent = {
  readonly path?: string
  readonly key?: string
  readonly body?: string
  readonly account?: string
}

/** A request through the proxy. */
export async function pay(
  { proxy }: Sidecar,
  { path = '/payments', key, body = '{"amount":1}', account }: Sent,
): Promise<Answered> {
  const {
    statusCode,
    headers,
    body: stream,
  } = await request(`${proxy}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...(account === undefined ? {} : { 'x-account': account }),
    },
    body,
    headersTimeout: WITHIN_MS,
  })
  const bytes = Buffer.from(await stream.arrayBuffer())
  const [, code = ''] = /"code":"([a-z-]+)"/.exec(bytes.toString('latin1')) ?? []
  return { status: statusCode, says: String(headers['idempotency-status'] ?? ''), code, bytes, headers }
}

type Json = { readonly status: number; readonly body: Record<string, unknown> }

/** A call of the reservation API; a GET without a body. */
export async function call({ api }: Sidecar, path: string, body?: object): Promise<Json> {
  const response = await request(`${api}${path}`, {
    ...(body === undefined
      ? { method: 'GET' }
      : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    headersTimeout: WITHIN_MS,
  })
  return { status: response.statusCode, body: (await response.body.json()) as Record<string, unknown> }
}

type Held = { readonly id: string; readonly token: number }

export async function reserve(sidecar: Sidecar, of: object): Promise<Json & Held> {
  const answer = await call(sidecar, '/v1/reservations', of)
  return { ...answer, id: String(answer.body.reservation_id), token: Number(answer.body.fencing_token) }
}

export function end(
  sidecar: Sidecar,
  { id, token }: Held,
  how: 'extend' | 'complete' | 'release',
  more: object = {},
): Promise<Json> {
  return call(sidecar, `/v1/reservations/${id}/${how}`, { fencing_token: token, ...more })
}

/** A gateway's check of a request with this key. */
export async function check({ gateway }: Sidecar, key: string, hop: string) {
  const { statusCode, headers, body } = await request(`${gateway}/v1/gateway/forward-auth`, {
    method: 'GET',
    headers: {
      'x-forwarded-method': 'POST',
      'x-forwarded-uri': '/payments',
      'x-forwarded-host': 'shop',
      'idempotency-key': key,
      'fencepost-hop-id': hop,
    },
    headersTimeout: WITHIN_MS,
  })
  await body.dump()
  return {
    status: statusCode,
    retryAfter: headers['retry-after'],
    id: String(headers['fencepost-reservation-id']),
  }
}

/** What the application answered to the request behind a check. */
export async function report({ gateway }: Sidecar, id: string, answer: object): Promise<number> {
  const { statusCode, body } = await request(`${gateway}/v1/gateway/complete`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'fencepost-reservation-id': id },
    body: JSON.stringify(answer),
    headersTimeout: WITHIN_MS,
  })
  await body.dump()
  return statusCode
}
