/** Names of listeners, as a set: for settings about some of them. */

import { refused, type ValueKind, value } from './value.ts'

const LISTENERS = ['proxy', 'api', 'gateway', 'admin', 'operator'] as const

const ONE = LISTENERS.join('|')

export type ListenerName = (typeof LISTENERS)[number]

export function listeners(): ValueKind<readonly ListenerName[]> {
  return {
    accepts: `some of ${LISTENERS.join(', ')}, separated by commas, each once`,
    parse: (text) => {
      const names = text.split(',').map((name) => name.trim())
      const known = LISTENERS.filter((name) => names.includes(name))
      return known.length === names.length ? value(known) : refused()
    },
    print: (names) => names.join(','),
    yaml: 'list',
    schema: {
      anyOf: [
        { type: 'string', pattern: `^\\s*(${ONE})(\\s*,\\s*(${ONE}))*\\s*$` },
        {
          type: 'array',
          items: { type: 'string', enum: LISTENERS },
          minItems: 1,
          maxItems: LISTENERS.length,
          uniqueItems: true,
        },
      ],
    },
  }
}
