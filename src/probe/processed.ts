/**
 * Synthetic duplicates through Envoy's ext_proc: the probe is Envoy, and the application behind it.
 *
 * It counts a request as executed where the sidecar lets it go on to the application; the judgement is the proxy's (`proxied.ts`).
 */

import { type EnvoyAnswer, type EnvoyCaller, type FloodOptions, PROBED_HOST, replyOf } from './call.ts'
import { executedVolley } from './proxied.ts'
import type { Volley } from './verdict.ts'

export function processVolley(number: number, options: FloodOptions, envoy: EnvoyCaller): Promise<Volley> {
  const { run, tenant, path, timeoutMs } = options
  const headers = {
    'idempotency-key': `probe-${run}-ext_proc-${number}`,
    'x-tenant-id': tenant,
    'content-type': 'application/json',
  }
  let executions = 0
  let sent = 0
  const execute = (): EnvoyAnswer => {
    executions += 1
    // Each execution answers something else: two of them can't pass for one.
    const text = `{"execution":"${number}-${executions}"}`
    return { status: 201, headers: new Headers({ 'content-type': 'application/json' }), text }
  }
  return executedVolley('ext_proc', number, options, {
    counted: { executions: () => executions, forget: () => {} },
    send: (url, body) => {
      sent += 1
      const id = `${run}-${number}-${sent}`
      const request = { id, method: 'POST', path, host: PROBED_HOST, headers, body }
      return replyOf(envoy.process(url, request, execute, timeoutMs))
    },
    elsewhere: 'this sidecar let none of them go on',
  })
}
