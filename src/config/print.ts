/**
 * An accepted configuration in the operator's notation, each value with its origin, secrets masked.
 */

import { stringify } from 'yaml'
import type { LoadedConfig, Origin } from './load.ts'
import { type PrintedRoute, printedRoute } from './print-route.ts'
import { rowOf, SETTING_KEYS } from './settings.ts'

type PrintedSetting = {
  readonly name: string
  readonly path: string
  /** Undefined: not set, and without a default. */
  readonly value?: string
  readonly origin: Origin
}

export type PrintedConfig = {
  readonly settings: readonly PrintedSetting[]
  readonly routes: { readonly origin: Origin; readonly routes: readonly PrintedRoute[] }
}

export function printedConfig({ config, origins }: LoadedConfig & { readonly kind: 'ok' }): PrintedConfig {
  const settings = SETTING_KEYS.map((key): PrintedSetting => {
    const { env, path, kind } = rowOf(key)
    const value: unknown = config[key]
    return {
      name: env,
      path,
      ...(value === undefined ? {} : { value: kind.print(value) }),
      origin: origins[key],
    }
  })
  return { settings, routes: { origin: origins.routes, routes: config.routes.map(printedRoute) } }
}

/** One line per setting, then the routes as YAML. */
export function textOfConfig({ settings, routes }: PrintedConfig): string {
  const nameWidth = Math.max(...settings.map(({ name }) => name.length))
  const originWidth = Math.max(...settings.map(({ origin }) => origin.length))
  const lines = settings.map(
    ({ name, origin, value }) =>
      `${name.padEnd(nameWidth)}  ${origin.padEnd(originWidth)}  ${value ?? '(not set)'}\n`,
  )
  const head = `\n# Routes, the first match decides (from ${routes.origin}); other requests pass through untouched.\n`
  return `${lines.join('')}${head}${textOfRoutes(routes.routes)}`
}

/** In the form of the file. */
export function textOfRoutes(routes: readonly PrintedRoute[]): string {
  return stringify({ routes }, { lineWidth: 0, aliasDuplicateObjects: false })
}
