/**
 * `POST /v1/fingerprint`: two spellings of one request have one fingerprint, and another request has another.
 *
 * Nothing is claimed. All copies are the first spelling, at every listener: sidecars that compute differently would
 * execute a duplicate.
 */

import {
  type FloodOptions,
  listenerOf,
  memberOf,
  PROBED_HOST,
  post,
  type Reply,
  saidBy,
  statusOf,
} from './call.ts'
import { headersFor } from './reservations.ts'
import { type Finding, finding, type Volley } from './verdict.ts'

export async function fingerprintVolley(number: number, options: FloodOptions): Promise<Volley> {
  const startedMs = performance.now()
  const of = `"probe": "${options.run}", "volley": ${number}`
  const ask = async (body: string, copy: number) => {
    const url = listenerOf(options, number, copy)
    const reply = await post(
      `${url}/v1/fingerprint`,
      headersFor(options.token),
      JSON.stringify({
        tenant: options.tenant,
        request: {
          method: 'POST',
          path: options.path,
          headers: { host: PROBED_HOST, 'content-type': 'application/json' },
          body,
        },
      }),
      options.timeoutMs,
    )
    return { url, reply, hash: hashIn(reply) }
  }
  const copies = await Promise.all(
    Array.from({ length: options.copies }, (_, copy) => ask(`{${of}, "amount": 1.50}`, copy)),
  )
  const durationMs = performance.now() - startedMs
  const [again, other] = await Promise.all([
    ask(`{"amount":1.5,${of.replaceAll(' ', '')}}`, copies.length),
    ask(`{${of}, "amount": 1.51}`, copies.length + 1),
  ])
  const requests = copies.length + 2
  const none = [...copies, again, other].find(({ hash }) => hash === undefined)
  const findings: Finding[] =
    none === undefined
      ? compared(
          copies.map(({ hash }) => hash),
          again.hash,
          other.hash,
        )
      : [finding('one', 'error', saidBy(none.url, none.reply))]
  return { entrypoint: 'fingerprint', findings, requests, durationMs }
}

type Hash = string | undefined

function compared(copies: readonly Hash[], again: Hash, other: Hash): Finding[] {
  const [first] = copies
  const alike = new Set(copies).size === 1
  return [
    finding('one', alike ? 'ok' : 'false_negative', 'sidecars computed different fingerprints'),
    finding('replay', again === first ? 'ok' : 'false_negative', 'another spelling has another fingerprint'),
    finding('mismatch', other === first ? 'false_positive' : 'ok', 'another amount has the same fingerprint'),
  ]
}

function hashIn(reply: Reply): Hash {
  const hash = memberOf(reply, 'hash')
  return statusOf(reply) === 200 && typeof hash === 'string' && /^[0-9a-f]{64}$/.test(hash) ? hash : undefined
}
