/** How often and when a message is tried again: for all types, and for some of their own. */
import type { Backoff } from './core.ts'
import { SagaConfigError } from './errors.ts'
import { given, requireBackoff, requireWhole } from './option-checks.ts'

export type RetryPolicy = {
  /** Default 10. */
  readonly maxAttempts?: number
  /** Default from 200 ms to one minute. */
  readonly backoff?: Backoff
}

/** What a type does not say is as for all types. */
export type RetryPolicies = RetryPolicy & { readonly byType?: Readonly<Record<string, RetryPolicy>> }

/** @throws SagaConfigError for a policy whose retries outlast the inbox's memory */
export function retryPolicies(
  retry: RetryPolicies,
  retentionMs: number,
): (type: string) => Required<RetryPolicy> {
  const { byType = {}, ...ofAll } = retry
  const forAll = { maxAttempts: 10, backoff: { initialMs: 200, maxMs: 60_000 }, ...given(ofAll) }
  requireWithin('', forAll, retentionMs)
  const own = new Map(Object.entries(byType).map(([type, policy]) => [type, { ...forAll, ...given(policy) }]))
  for (const [type, policy] of own) requireWithin(` of ${type}`, policy, retentionMs)
  return (type) => own.get(type) ?? forAll
}

function requireWithin(
  of: string,
  { maxAttempts, backoff }: Required<RetryPolicy>,
  retentionMs: number,
): void {
  requireWhole({ [`retry.maxAttempts${of}`]: maxAttempts })
  requireBackoff(`retry.backoff${of}`, backoff)
  const horizonMs = maxAttempts * backoff.maxMs
  if (retentionMs <= horizonMs)
    throw new SagaConfigError(
      `retentionMs ${retentionMs} must be longer than all retries${of} together (${maxAttempts} × ${backoff.maxMs} ms = ${horizonMs} ms)`,
    )
}
