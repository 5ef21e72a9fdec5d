/**
 * An accepted configuration in the notation of the operator, each value with where it comes from, secrets masked.
 */

import type { Route } from '../core/route.ts'
import type { LoadedConfig, Origin } from './load.ts'
import { rowOf, SETTING_KEYS } from './settings.ts'

export type PrintedSetting = {
  readonly name: string
  readonly path: string
  /** Undefined: not set, and there is no default. */
  readonly value?: string
  readonly origin: Origin
}

export type PrintedConfig = {
  readonly settings: readonly PrintedSetting[]
  readonly routes: { readonly origin: Origin; readonly routes: readonly Route[] }
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
  return { settings, routes: { origin: origins.routes, routes: config.routes } }
}
