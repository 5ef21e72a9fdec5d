/** Requests for the tests of the fingerprint: one plain head, and the overrides of a test. */

import { expect } from 'vitest'
import {
  DEFAULT_RULES,
  type Fingerprinted,
  type FingerprintRules,
  fingerprint,
  type RequestHead,
} from '../../src/core/request/fingerprint.ts'

export const HEAD: RequestHead = {
  tenant: 'acme',
  env: 'prod',
  apiVersion: 'v1',
  principal: 'anonymous',
  method: 'POST',
  path: '/payments',
  query: undefined,
  headers: [],
}

export const JSON_HEAD = headOf('application/json')

export function headOf(type: string, ...more: [string, string][]): RequestHead {
  return { ...HEAD, headers: [['Content-Type', type], ...more] }
}

export async function fingerprintOf(
  head: RequestHead,
  body: string | Uint8Array,
  rules: FingerprintRules = DEFAULT_RULES,
): Promise<Fingerprinted> {
  const bytes = typeof body === 'string' ? Buffer.from(body, 'utf8') : body
  const result = await fingerprint(head, bytes, rules)
  if (result.kind !== 'fingerprint') expect.fail(`no fingerprint: ${JSON.stringify(result)}`)
  return result
}

export async function hashOf(head: RequestHead, body: string | Uint8Array): Promise<string> {
  return (await fingerprintOf(head, body)).hash
}
