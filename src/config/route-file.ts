/**
 * Routes as the YAML file gives them.
 */

import type { Route } from '../core/route.ts'
import type { ConfigError } from './errors.ts'
import type { Settings } from './settings.ts'
import type { YamlFile } from './yaml-file.ts'

/** Undefined where the file has no `routes`: then the built-in policy is in force. */
export function routesFrom(
  file: YamlFile,
  _settings: Partial<Settings>,
  errors: ConfigError[],
): readonly Route[] | undefined {
  if (file['routes'] === undefined) return undefined
  errors.push({ kind: 'file', name: 'routes', reason: 'not yet read' })
  return []
}
