/**
 * What the headers of tenant, version and client may be: each says one thing, and no other program reads another in it.
 *
 * Owns no form of a header; that is `headerName` in `parse.ts`. From a peer that is not trusted these headers are taken away, so one
 * that the request needs for something else would be missing there.
 */

import type { ConfigError } from './errors.ts'
import { SETTINGS, type Settings } from './settings.ts'

/** By whom it is read already. */
const TAKEN: Readonly<Record<string, string>> = {
  ...readBy(
    'HTTP itself',
    'connection',
    'content-length',
    'date',
    'expect',
    'host',
    'keep-alive',
    'proxy-authenticate',
    'proxy-authorization',
    'te',
    'trailer',
    'transfer-encoding',
    'upgrade',
  ),
  ...readBy('the application', 'content-digest', 'content-encoding', 'content-type', 'cookie'),
  ...readBy('fencepost as the credentials of a client', 'authorization'),
  ...readBy('fencepost as the key', 'idempotency-key'),
  ...readBy('tracing, and it is another one with each try', 'traceparent', 'tracestate'),
}

function readBy(who: string, ...names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name) => [name, who]))
}

const NAMED = ['tenantHeader', 'versionHeader', 'clientHeader'] as const
const EXAMPLE = {
  tenantHeader: 'x-tenant-id',
  versionHeader: 'x-api-version',
  clientHeader: 'x-client-id',
}

export function scopeHeaders(settings: Partial<Settings>): readonly ConfigError[] {
  const taken = NAMED.flatMap((key): ConfigError[] => {
    const given = settings[key]
    const who = given === undefined ? undefined : TAKEN[given]
    if (given === undefined || who === undefined) return []
    const { env: name } = SETTINGS[key]
    const accepts = `a header that says nothing else, such as ${EXAMPLE[key]}`
    return [{ kind: 'refused', name, given, accepts, reason: `it is read by ${who}` }]
  })
  const { versionHeader } = settings
  // A tenant that is a single client may name both at once.
  const shared = (['tenantHeader', 'clientHeader'] as const).flatMap((key): ConfigError[] => {
    if (versionHeader === undefined || settings[key] !== versionHeader) return []
    const { env: name } = SETTINGS[key]
    const inequality = `header (${versionHeader}) ≠ ${SETTINGS.versionHeader.env} (${versionHeader})`
    return [
      { kind: 'relation', name, inequality, reason: 'all that use one version would be one and the same' },
    ]
  })
  return [...taken, ...shared]
}
