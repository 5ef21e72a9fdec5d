/**
 * Origins of pages, as a browser writes them in `Origin`.
 *
 * Owns their notation: character for character what a browser sends, because that is what they are compared with.
 */

import { listedSchema } from './listed.ts'
import { type Parsed, refused, type ValueKind, value } from './value.ts'

const MOST_ORIGINS = 100
/** Also of applications in a shell of their own: `capacitor://localhost`. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@,\s]+$/

export function pageOrigins(): ValueKind<readonly string[]> {
  return {
    accepts: `none, or up to ${MOST_ORIGINS} origins separated by commas, such as https://shop.example,https://app.example:8443`,
    parse,
    print: (origins) => (origins.length === 0 ? 'none' : origins.join(',')),
    yaml: 'list',
    schema: listedSchema(ORIGIN.source.slice(1, -1), { min: 1, max: MOST_ORIGINS }, ['none']),
  }
}

function parse(text: string): Parsed<readonly string[]> {
  if (text === 'none') return value([])
  const origins = text.split(',').map((entry) => entry.trim())
  for (const origin of origins) {
    const fault = faultOf(origin)
    if (fault !== undefined) return refused(`"${origin}" ${fault}`)
  }
  return origins.length > MOST_ORIGINS ? refused(`${origins.length} given`) : value(origins)
}

function faultOf(origin: string): string | undefined {
  if (origin === '*') return 'is every page there is; name those that may read'
  const sent = originOf(origin)
  if (sent !== undefined && sent !== origin) return `is not as a browser sends it, which is ${sent}`
  return ORIGIN.test(origin) ? undefined : 'is no origin'
}

/** Undefined for what is none, and for schemes of which only their owner knows. */
function originOf(text: string): string | undefined {
  if (!/^https?:/i.test(text)) return undefined
  try {
    return new URL(text).origin
  } catch {
    return undefined
  }
}
