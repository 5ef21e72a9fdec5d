/** What a call of the operator API is answered with: JSON, or a problem document. */

import type { Problem } from '../message/problems.ts'
import { RETRY_SOON_MS } from '../request/refusals.ts'

export type OperatorAnswer =
  | { readonly kind: 'json'; readonly body: unknown }
  | { readonly kind: 'problem'; readonly problem: Problem }

export function json(body: unknown): OperatorAnswer {
  return { kind: 'json', body }
}

export function refusal(of: Problem): OperatorAnswer {
  return { kind: 'problem', problem: of }
}

export function problem(
  code: Problem['code'],
  detail: string,
  more?: Record<string, unknown>,
): OperatorAnswer {
  return refusal({ code, detail, ...(more === undefined ? {} : { more }) })
}

export function unavailable(because: string): OperatorAnswer {
  return refusal({ code: 'quorum-unavailable', detail: because, retryAfterMs: RETRY_SOON_MS })
}
