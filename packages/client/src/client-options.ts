/**
 * The options of a client, checked when it is made: a wrong one must not wait for the first payment to be noticed.
 */

import { A_DAY_MS, wholeMs } from './times.ts'
import type { FetchLike, TransportOptions } from './transport.ts'

export type ClientOptions = {
  /** The sidecar's. Default `http://127.0.0.1:8081`. */
  readonly url?: string | undefined
  /** Where the sidecar requires one. White space around it, as at the end of a file, does not count. */
  readonly token?: string | undefined
  /** Default: the runtime's. For unix sockets, proxies and tests; that of undici fits, too. */
  readonly fetch?: FetchLike | undefined
  /** Time for all tries of one call together. Default 5000. */
  readonly retryForMs?: number | undefined
  /** Time for one try. Default 2000. */
  readonly callTimeoutMs?: number | undefined
}

export function transportOf({
  url = 'http://127.0.0.1:8081',
  token,
  fetch: given,
  retryForMs = 5_000,
  callTimeoutMs = 2_000,
}: ClientOptions): TransportOptions {
  if (globalThis.crypto?.randomUUID === undefined || (given ?? globalThis.fetch) === undefined)
    throw new TypeError(
      '@fencepost/client needs `fetch` and `crypto.randomUUID`, and this runtime has not both: Node 20.19 or newer has them',
    )
  return {
    url: addressOf(url),
    token: sendable(token),
    fetch: given ?? ((input, init) => fetch(input, init)),
    retryForMs: wholeMs('retryForMs', retryForMs, 0),
    callTimeoutMs: wholeMs('callTimeoutMs', callTimeoutMs, 1, A_DAY_MS),
    reached: { yet: false },
  }
}

function addressOf(given: string): string {
  const url = parsed(given)
  const fault =
    url === undefined || !/^https?:$/.test(url.protocol)
      ? 'is no address of http or https'
      : url.search !== '' || url.hash !== ''
        ? 'has a query or a fragment'
        : url.username !== '' || url.password !== ''
          ? 'has a user or a password, which `fetch` refuses: use the option `token`'
          : undefined
  // A password must not come into a log with the message, and one with a `#` or a `/` makes an address that is none.
  const shown = given.includes('@') ? 'the url' : `the url ${JSON.stringify(given)}`
  if (fault !== undefined) throw new TypeError(`${shown} ${fault}; give one such as http://127.0.0.1:8081`)
  return given.replace(/\/+$/, '')
}

/**
 * `fetch` quotes a header that it refuses, and an error is logged: the token would be in the log. A file has several tokens while
 * they are rotated, a line each. RFC 9110, section 5.5.
 */
function sendable(token: string | undefined): string | undefined {
  const given = token?.trim()
  if (given === undefined || /^[\t\x20-\x7e\x80-\xff]*$/.test(given)) return given
  throw new TypeError(
    'the token has a character that no header takes, such as the line break between two tokens of a file: give one of them. It is not shown here',
  )
}

/** `URL.parse` is younger than the oldest runtimes. */
function parsed(given: string): URL | undefined {
  try {
    return new URL(given)
  } catch {
    return undefined
  }
}
