/**
 * Synthetic duplicates on the reservation API: several sessions want one value at the same moment.
 *
 * The session that gets it completes it with a result; a further session must then be told that result. A value has no
 * content, so there is no mismatch to notice.
 */

import { type FloodOptions, listenerOf, memberOf, post, type Reply, saidBy, statusOf } from './call.ts'
import { type Asked, claimingVolley } from './race.ts'
import { type Copy, type Finding, finding, type Result, type Volley } from './verdict.ts'

export function reservationVolley(number: number, options: FloodOptions): Promise<Volley> {
  const value = `__probe__:${options.run}:${number}`
  return claimingVolley({
    entrypoint: 'api',
    copies: options.copies,
    ask: (copy) => reserve(value, number, copy, options),
    whyFailed: ({ url, reply }) => saidBy(url, reply),
    further: async (winner) => ({ findings: [await replayed(value, number, winner, options)], requests: 2 }),
    release: (granted) => end('release', granted, {}, options),
  })
}

async function reserve(value: string, number: number, copy: number, options: FloodOptions): Promise<Asked> {
  const { run, tenant, retention, timeoutMs } = options
  const url = listenerOf(options, number, copy)
  const wanted = { session_id: `${run}-${copy}`, reserved_value: value, tenant, retention }
  const reply = await post(
    `${url}/v1/reservations`,
    headersFor(options.token),
    JSON.stringify(wanted),
    timeoutMs,
  )
  return { url, reply, copy: COPY[statusOf(reply) ?? 0] ?? 'failed' }
}

const COPY: Readonly<Record<number, Copy>> = { 201: 'granted', 409: 'refused' }

async function replayed(
  value: string,
  number: number,
  winner: Asked,
  options: FloodOptions,
): Promise<Finding> {
  const completed = await end('complete', winner, { result: { volley: value } }, options)
  if (statusOf(completed) !== 200) return finding('replay', 'error', saidBy(winner.url, completed))
  // A session of its own, at the next listener: it asks the nodes, and not the memory of the session that was granted.
  const { url, reply } = await reserve(value, number, options.copies, options)
  const told = memberOf(reply, 'result') as { readonly volley?: unknown } | undefined
  const isDuplicate = memberOf(reply, 'reservation_status') === 'DUPLICATE'
  let result: Result = 'error'
  if (statusOf(reply) === 201) result = 'false_negative'
  else if (isDuplicate) result = told?.volley === value ? 'ok' : 'false_negative'
  return finding('replay', result, saidBy(url, reply))
}

function end(
  call: 'complete' | 'release',
  { url, reply }: Asked,
  more: Readonly<Record<string, unknown>>,
  { token, timeoutMs }: FloodOptions,
): Promise<Reply> {
  const id = String(memberOf(reply, 'reservation_id'))
  const body = JSON.stringify({ fencing_token: memberOf(reply, 'fencing_token'), ...more })
  return post(`${url}/v1/reservations/${encodeURIComponent(id)}/${call}`, headersFor(token), body, timeoutMs)
}

export function headersFor(token: string | undefined): Record<string, string> {
  return {
    'content-type': 'application/json',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  }
}
