/**
 * An observed request: identified as its route would, and its outcome asked for beside it (`core/observation.ts`).
 *
 * Owns the order of these steps, and how many requests are observed at once. Whatever happens here, the request goes its way: the
 * caller hands over what has passed, and waits for nothing.
 */

import { createBackground } from '../../core/background.ts'
import type { Observation, ObservedEvent } from '../../core/decision.ts'
import { SILENT } from '../../core/events.ts'
import { type ObservedAnswer, observe } from '../../core/observation.ts'
import type { PathParameters } from '../../core/routes/path-pattern.ts'
import type { ObservedRoute, ProtectedRoute } from '../../core/routes/route.ts'
import type { Body } from '../server/inbound.ts'
import type { AdmittedRequest } from './admission.ts'
import { type Identification, identify, scopeOf } from './identify.ts'
import { executed, isNoCommand, type ProtectOptions, type ProtectPorts, policyOf } from './protect.ts'

/** Claims and renewals of theirs on the nodes, beside those of protected requests. */
const OBSERVED_MAX = 1_000

export type ObservedCall = {
  readonly request: AdmittedRequest
  readonly route: ObservedRoute
  readonly params: PathParameters
  /** What has passed of it; `unseen` where it could not be kept. Never rejects. */
  readonly body: Promise<Body | { readonly kind: 'unseen' }>
  readonly answered: Promise<ObservedAnswer>
}

export type Observer = (call: ObservedCall) => Promise<void>

/** @returns resolves when it is known what would have been, and never rejects */
export function createObserver(options: ProtectOptions, ports: ProtectPorts): Observer {
  let underWay = 0
  // Outcomes of protected requests have their slots for themselves.
  const background = createBackground(OBSERVED_MAX, () => {})
  // What is counted of leases and outcomes is of requests that are protected.
  const beside = { ...ports, events: SILENT, background }

  async function observation(call: ObservedCall): Promise<Omit<ObservedEvent, 'kind' | 'route'> | undefined> {
    const { request, route, params, answered } = call
    if (underWay > OBSERVED_MAX) return UNSEEN
    const body = await call.body
    if (body.kind === 'gone') return undefined
    if (body.kind === 'unseen') return UNSEEN
    if (isNoCommand(route.as, body)) return { would: 'unprotected', because: 'no-command' }
    if (body.kind === 'refused') return refused(body.problem)
    const scope = scopeOf(request, options.scope)
    if ('code' in scope) return refused(scope)
    const identifiedOn = (of: ProtectedRoute): Promise<Identification> =>
      identify({ request, body: body.bytes, route: of, params }, scope, options.scope)
    let policy = route.as
    let identified = await identifiedOn(policy)
    if (identified.kind === 'unkeyed' && route.withoutKey !== undefined) {
      policy = route.withoutKey
      identified = await identifiedOn(policy)
    }
    switch (identified.kind) {
      case 'unkeyed':
        return { would: 'unprotected', because: 'no-key' }
      case 'refused':
        return refused(identified.problem)
      case 'identified': {
        const { recordKey, fingerprint, contentRecord, clientKey } = identified
        const wanted = { recordKey, fingerprint, contentRecord, answered, policy: policyOf(policy, options) }
        const seen = await observe(wanted, { ...beside, waiters: ports.waitersOf(policy) })
        if (seen.would === 'executed') executed(policy, identified, ports)
        return { ...seen, by: clientKey === undefined ? 'content' : 'key' }
      }
    }
  }

  return async (call) => {
    underWay += 1
    const seen = await observation(call).catch((): Observation => FAILED)
    underWay -= 1
    if (seen !== undefined) ports.events.publish({ kind: 'observed', route: call.route.name, ...seen })
  }
}

/** Of a request that a gateway sends on: neither all of it nor its answer is seen here. */
export function unseen({ name: route }: ObservedRoute): ObservedEvent {
  return { kind: 'observed', route, ...UNSEEN }
}

const UNSEEN: Observation = { would: 'unknown', because: 'not-seen' }
const FAILED: Observation = { would: 'unknown', because: 'failed' }

function refused({ code }: { readonly code: string }): Observation {
  return { would: 'refused', because: code }
}
