/**
 * Which pages of other origins may read what the proxy says in its own words.
 *
 * A browser shows a page no answer of another origin unless the answer allows it. One of the application does so itself, and a replay as it
 * did; of a problem of the proxy's own only the proxy can. Without it a page sees a failed request: neither the status nor when to try again.
 *
 * Owns those header lines. Refuses to touch any answer of the application, which has its own policy, and to answer a preflight in its place.
 *
 * Source: Fetch, section 3.3 (CORS protocol).
 */

import type { IncomingMessage } from 'node:http'
import type { HeaderList } from '../../core/header-list.ts'
import type { Answer } from '../message/answer.ts'
import { CREATED_AT_HEADER, REPLAYED_HEADER, STATUS_HEADER } from '../message/headers.ts'

/** Of what problems carry, a page sees the others without this. */
const EXPOSED = [STATUS_HEADER, REPLAYED_HEADER, CREATED_AT_HEADER, 'Retry-After', 'Location'].join(', ')

export function readableBy(origins: readonly string[]): (answer: Answer, req: IncomingMessage) => Answer {
  if (origins.length === 0) return (answer) => answer
  const allowed = new Set(origins)
  return (answer, { headers: { origin } }) => {
    if (answer.instance === undefined) return answer
    const lines: HeaderList =
      origin !== undefined && allowed.has(origin)
        ? [
            ['Access-Control-Allow-Origin', origin],
            ['Access-Control-Allow-Credentials', 'true'],
            ['Access-Control-Expose-Headers', EXPOSED],
          ]
        : []
    return { ...answer, headers: [...answer.headers, ...lines, ['Vary', 'Origin']] }
  }
}
