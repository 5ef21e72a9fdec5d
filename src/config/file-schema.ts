/**
 * The JSON Schema (draft 2020-12) of the YAML file, made from the tables. docs/config.schema.json is a copy of it.
 */

import { MOST_ROUTES, ROUTE_SHAPE } from './route-fields.ts'
import { rowOf, SETTING_KEYS } from './settings.ts'

type Schema = Readonly<Record<string, unknown>>

export function fileSchema(): Schema {
  const topLevel: Record<string, Schema> = {}
  const groups: Record<string, Record<string, Schema>> = {}
  for (const key of SETTING_KEYS) {
    const row = rowOf(key)
    const fallback = row.default.kind === 'text' ? { default: row.default.text } : {}
    const schema = { description: `${row.summary} (${row.env})`, ...fallback, ...row.kind.schema }
    const [group, name] = row.path.split('.') as [string, string?]
    if (name === undefined) {
      topLevel[group] = schema
      continue
    }
    groups[group] ??= {}
    groups[group][name] = schema
  }
  for (const [group, properties] of Object.entries(groups))
    topLevel[group] = { type: ['object', 'null'], properties, additionalProperties: false }
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'fencepost configuration file',
    type: ['object', 'null'],
    properties: {
      ...topLevel,
      routes: {
        description: 'Tried in order; the first match decides.',
        type: 'array',
        items: ROUTE_SHAPE.schema,
        maxItems: MOST_ROUTES,
      },
    },
    additionalProperties: false,
  }
}
