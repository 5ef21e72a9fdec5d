/**
 * Synthetic duplicates as a gateway asks about them: the check over HTTP (nginx, Caddy, Traefik, HAProxy: here in the form
 * of `forward-auth`, which hands on a body) and Envoy's ext_authz, over HTTP and over gRPC.
 *
 * Each copy is a check of its own, with a hop's id of its own. The claim that is granted is completed as a gateway reports
 * an answer, over HTTP; a check refuses what was completed, and does not replay it.
 */

import {
  type EnvoyCaller,
  type FloodOptions,
  headerOf,
  listenerOf,
  memberOf,
  PROBED_HOST,
  post,
  type Reply,
  replyOf,
  saidBy,
  statusOf,
} from './call.ts'
import { type Asked, claimingVolley } from './race.ts'
import { type Copy, type Finding, finding, type Result, type Volley } from './verdict.ts'

type CheckDialect = 'http_check' | 'ext_authz' | 'ext_authz_grpc'

/** `reportUrls`: listeners over HTTP that take the report about a claim. */
type CheckOptions = FloodOptions & { readonly reportUrls: readonly string[] }

/** @param envoy where the dialect is over gRPC */
export function checkVolley(
  dialect: CheckDialect,
  number: number,
  options: CheckOptions,
  envoy?: EnvoyCaller,
): Promise<Volley> {
  const asking: Asking = { dialect, number, options, envoy }
  return claimingVolley({
    entrypoint: dialect,
    copies: options.copies,
    ask: (copy) => check(asking, copy, 'first'),
    whyFailed: (failed) => refusalOf(failed, options),
    further: async (winner) => ({ findings: await furtherOf(winner, asking), requests: 3 }),
    release: (granted) => end('release', granted, asking),
  })
}

type Asking = {
  readonly dialect: CheckDialect
  readonly number: number
  readonly options: CheckOptions
  readonly envoy: EnvoyCaller | undefined
}

async function furtherOf(winner: Asked, asking: Asking): Promise<Finding[]> {
  const completed = await end('complete', winner, asking)
  if (statusOf(completed.reply) !== 204)
    return [finding('replay', 'error', saidBy(completed.url, completed.reply))]
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

async function check(asking: Asking, copy: number, content: 'first' | 'other'): Promise<Asked> {
  const { number, options } = asking
  const url = listenerOf(options, number, copy)
  const reply = await asked(asking, url, `${options.run}-${number}-${copy}`, content)
  return { url, reply, copy: copyOf(reply) }
}

/** @param id the gateway's own of this check */
function asked(
  { dialect, number, options, envoy }: Asking,
  url: string,
  id: string,
  content: 'first' | 'other',
): Promise<Reply> {
  const { run, tenant, token, path, timeoutMs } = options
  const own = {
    'x-tenant-id': tenant,
    'idempotency-key': `probe-${run}-${dialect}-${number}`,
    'content-type': 'application/json',
  }
  const body = JSON.stringify({ probe: run, content })
  const over = (call: string, described: Record<string, string>) =>
    post(`${url}/v1/gateway/${call}`, { ...described, ...tokenFor(token), ...own }, body, timeoutMs)
  switch (dialect) {
    case 'ext_authz':
      return over(`ext-authz${path}`, { 'x-request-id': id })
    case 'http_check':
      return over('forward-auth', {
        'x-forwarded-method': 'POST',
        'x-forwarded-uri': path,
        'x-forwarded-host': PROBED_HOST,
        'fencepost-hop-id': id,
      })
    case 'ext_authz_grpc': {
      if (envoy === undefined) throw new Error('a check over gRPC needs the caller')
      const request = { id, method: 'POST', path, host: PROBED_HOST, headers: own, body }
      return replyOf(envoy.check(url, request, timeoutMs))
    }
  }
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

/** The gateway's report. */
async function end(
  call: 'complete' | 'release',
  { reply }: Asked,
  { number, options }: Asking,
): Promise<{ readonly url: string; readonly reply: Reply }> {
  const { token, timeoutMs, reportUrls } = options
  const url = listenerOf({ ...options, urls: reportUrls }, number, 0)
  const headers = {
    ...tokenFor(token),
    'fencepost-reservation-id': reservationIn(reply) ?? '',
    'content-type': 'application/json',
  }
  return { url, reply: await post(`${url}/v1/gateway/${call}`, headers, '{"status":201}', timeoutMs) }
}

function tokenFor(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { 'fencepost-gateway-token': token }
}
