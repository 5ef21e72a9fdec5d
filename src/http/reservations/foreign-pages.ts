/**
 * Calls of pages: a browser on this machine reaches a listener on localhost, and runs what strangers wrote.
 *
 * A browser lets a page of another site send some calls, though not read their answers, and names its site in `Origin`. A site whose name is
 * led to 127.0.0.1 once its page is there (DNS rebinding) is no other site to the browser; then its name stands in `Host`. A page can
 * leave out neither of them, and other programs have no reason to send either.
 *
 * Owns the refusal of both, where no token tells callers apart: a page knows none.
 *
 * Source: Fetch, section 3.2 (Origin); RFC 9110, section 7.2 (Host); RFC 6761, section 6.3 (localhost); ICANN resolution 2024.07.29.06
 * (internal).
 */

import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import type { Problem } from '../message/problems.ts'

/**
 * Whom a call may name as its host. `local`: an address, or a name that no server of the public internet answers for, so that no stranger
 * can lead it anywhere. `any`: no browser can be led to the listener by a name.
 */
export type CalledHosts = 'local' | 'any'

export function foreignPage(
  { host = '', origin }: IncomingHttpHeaders,
  hosts: CalledHosts,
): Problem | undefined {
  if (origin !== undefined && originHost(origin) !== host.toLowerCase())
    return refusal('It comes from a page of another site ("Origin").')
  if (hosts === 'local' && !isLocal(withoutPort(host)))
    return refusal(
      'Its "Host" is a name that leads elsewhere: call it as localhost, or by an address, or have a token configured.',
    )
  return undefined
}

function refusal(why: string): Problem {
  return {
    code: 'page-refused',
    detail: `${why} Without a token (FENCEPOST_API_TOKEN_FILE) it could be a page in a browser that calls. Nothing was done.`,
  }
}

/** Undefined for `null`, the origin of a page that shall have none. */
function originHost(origin: string): string | undefined {
  return /^https?:\/\/(.+)$/i.exec(origin)?.[1]?.toLowerCase()
}

function withoutPort(host: string): string {
  return host
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
}

/** Without a `Host` (HTTP/1.0) it is no browser. */
function isLocal(host: string): boolean {
  return host === '' || isIP(host) !== 0 || /^(.+\.)?localhost$|\.internal$/i.test(host)
}
