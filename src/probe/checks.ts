/**
 * Synthetic duplicates as a gateway asks about them: the check over HTTP (nginx, Caddy, Traefik, HAProxy: here in the form
 * of `forward-auth`, which hands on a body) and Envoy's ext_authz over HTTP.
 *
 * Each copy is a check of its own, with a hop's id of its own. The claim that is granted is completed as a gateway reports
 * an answer; a check refuses what was completed, and does not replay it.
 */

import {
  type FloodOptions,
  headerOf,
  listenerOf,
  memberOf,
  post,
  type Reply,
  saidBy,
  statusOf,
} from './call.ts'
import { type Copy, type Finding, finding, judge, type Result, type Volley } from './verdict.ts'

export type CheckDialect = 'http_check' | 'ext_authz'

export async function checkVolley(
  dialect: CheckDialect,
  number: number,
  options: FloodOptions,
): Promise<Volley> {
  const startedMs = performance.now()
  const asking = { dialect, number, options }
  const asked = await Promise.all(
    Array.from({ length: options.copies }, (_, copy) => check(asking, copy, 'first')),
  )
  const durationMs = performance.now() - startedMs
  const failed = asked.find(({ copy }) => copy === 'failed')
  const result = judge(asked.map(({ copy }) => copy))
  const findings = [finding('one', result, failed && refusalOf(failed, options))]
  const granted = asked.filter(({ copy }) => copy === 'granted')
  const [winner] = granted
  let requests = asked.length
  if (result === 'ok' && winner !== undefined) {
    const completed = await end('complete', winner, options)
    if (statusOf(completed) !== 204) findings.push(finding('replay', 'error', saidBy(winner.url, completed)))
    else findings.push(...(await further(asking)))
    requests += 3
  } else {
    await Promise.all(granted.map((one) => end('release', one, options)))
    requests += granted.length
  }
  return { entrypoint: dialect, findings, requests, durationMs }
}

type Asking = {
  readonly dialect: CheckDialect
  readonly number: number
  readonly options: FloodOptions
}
type Asked = { readonly url: string; readonly reply: Reply; readonly copy: Copy }

async function further(asking: Asking): Promise<Finding[]> {
  const [again, other] = await Promise.all([
    check(asking, asking.options.copies, 'first'),
    check(asking, asking.options.copies + 1, 'other'),
  ])
  const isDuplicate = memberOf(again.reply, 'code') === 'reservation-duplicate'
  const replay: Result = again.copy === 'granted' ? 'false_negative' : isDuplicate ? 'ok' : 'error'
  return [
    finding('replay', replay, saidBy(again.url, again.reply)),
    finding('mismatch', MISMATCH[statusOf(other.reply) ?? 0] ?? 'error', saidBy(other.url, other.reply)),
  ]
}

/** By the status of a check with the key of another content. */
const MISMATCH: Readonly<Record<number, Result>> = { 422: 'ok', 200: 'false_negative', 409: 'false_positive' }

async function check(
  { dialect, number, options }: Asking,
  copy: number,
  content: 'first' | 'other',
): Promise<Asked> {
  const { run, tenant, token, path, timeoutMs } = options
  const url = listenerOf(options, number, copy)
  const id = `${run}-${number}-${copy}`
  const [call, described]: [string, Record<string, string>] =
    dialect === 'ext_authz'
      ? [`ext-authz${path}`, { 'x-request-id': id }]
      : [
          'forward-auth',
          {
            'x-forwarded-method': 'POST',
            'x-forwarded-uri': path,
            'x-forwarded-host': 'fencepost-probe',
            'fencepost-hop-id': id,
          },
        ]
  const headers = {
    ...described,
    ...tokenFor(token),
    'x-tenant-id': tenant,
    'idempotency-key': `probe-${run}-${dialect}-${number}`,
    'content-type': 'application/json',
  }
  const reply = await post(
    `${url}/v1/gateway/${call}`,
    headers,
    JSON.stringify({ probe: run, content }),
    timeoutMs,
  )
  return { url, reply, copy: copyOf(reply) }
}

/** A check that is let through without a claim is not protected, and proves nothing. */
function copyOf(reply: Reply): Copy {
  if (statusOf(reply) === 200) return reservationIn(reply) === undefined ? 'failed' : 'granted'
  return statusOf(reply) === 409 ? 'refused' : 'failed'
}

function refusalOf({ url, reply }: Asked, { path }: FloodOptions): string {
  return statusOf(reply) === 200
    ? `${url} let it through without a claim: no route of that sidecar protects POST ${path}`
    : saidBy(url, reply)
}

function reservationIn(reply: Reply): string | undefined {
  return headerOf(reply, 'fencepost-reservation-id')
}

function end(
  call: 'complete' | 'release',
  { url, reply }: Asked,
  { token, timeoutMs }: FloodOptions,
): Promise<Reply> {
  const headers = {
    ...tokenFor(token),
    'fencepost-reservation-id': reservationIn(reply) ?? '',
    'content-type': 'application/json',
  }
  return post(`${url}/v1/gateway/${call}`, headers, '{"status":201}', timeoutMs)
}

function tokenFor(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { 'fencepost-gateway-token': token }
}
