/**
 * From environment and file to a frozen configuration, or to all of its errors.
 *
 * Pure but for `readFile`. The environment overrides the file, the file the default; a refused value is an error even
 * if another one overrides it. The first error stops nothing: the operator sees all of them at one start.
 */

import type { Route } from '../core/routes/route.ts'
import { clearText, ownAddress, sharedAddresses } from './address-rules.ts'
import { isLoopback } from './addresses.ts'
import { builtinRoutes, underMode } from './builtin-policy.ts'
import { keyPairs } from './certificates.ts'
import { type ConfigError, missingSetting, nearestName, nearestPath } from './errors.ts'
import { checkPrincipals } from './principal.ts'
import { checkRelations } from './relations.ts'
import { routesFrom } from './route-file.ts'
import { scopeHeaders } from './scope-headers.ts'
import {
  CONFIG_FILE_ENV,
  NAMES_OF_OTHERS,
  rowOf,
  SETTING_KEYS,
  SETTINGS,
  type SettingKey,
  type Settings,
} from './settings.ts'
import { isMapping, readYaml, type YamlFile } from './shape.ts'
import { type ReadFile, textOf } from './value.ts'

export type Config = Omit<Settings, 'quarantineMs'> & {
  readonly quarantineMs: number
  readonly routes: readonly Route[]
}

export type Origin = 'environment' | 'file' | 'default'

export type Environment = Readonly<Record<string, string | undefined>>

export type LoadedConfig =
  | {
      readonly kind: 'ok'
      readonly config: Config
      readonly origins: Readonly<Record<SettingKey | 'routes', Origin>>
    }
  | { readonly kind: 'invalid'; readonly errors: readonly ConfigError[] }

export function loadConfig(env: Environment, readFile: ReadFile): LoadedConfig {
  const errors: ConfigError[] = unknownVariables(env)
  const file = readYaml(env[CONFIG_FILE_ENV], readFile, errors)
  errors.push(...unknownKeys(file))
  const { settings, origins } = readSettings(env, file, readFile, errors)
  const fromFile = routesFrom(file, settings, errors)
  const routes = underMode(fromFile ?? builtinRoutes(settings as Settings), settings as Settings)
  const relations = checkRelations(settings, routes)
  errors.push(
    ...missingUpstream(settings),
    ...missingToken(settings),
    ...missingOperatorTokens(settings),
    ...keyPairs(settings),
    ...ownAddress(settings),
    ...sharedAddresses(settings),
    ...unevenNames(settings),
    ...scopeHeaders(settings),
    ...clearText(settings),
    ...checkPrincipals(routes, settings, readFile),
    ...relations.errors,
  )
  if (errors.length > 0) return { kind: 'invalid', errors: deepFreeze(errors) }
  return deepFreeze({
    kind: 'ok',
    config: {
      ...(settings as Settings),
      quarantineMs: relations.quarantineMs,
      routes,
    },
    origins: { ...origins, routes: fromFile === undefined ? 'default' : 'file' },
  })
}

function readSettings(env: Environment, file: YamlFile, readFile: ReadFile, errors: ConfigError[]) {
  const settings: Record<string, unknown> = {}
  const origins = {} as Record<SettingKey, Origin>
  for (const key of SETTING_KEYS) {
    const row = rowOf(key)
    const refuse = (name: string, text: string, reason: string | undefined) => {
      settings[key] = undefined
      const given = row.kind.mask?.(text) ?? text
      const because = reason === undefined ? {} : { reason }
      errors.push({ kind: 'refused', name, given, accepts: row.kind.accepts, ...because })
    }
    const read = (name: string, text: string, origin: Origin) => {
      const parsed = row.kind.parse(text, readFile)
      if (parsed.kind === 'value') {
        settings[key] = parsed.value
        origins[key] = origin
        return
      }
      refuse(name, text, parsed.reason)
    }
    origins[key] = 'default'
    if (row.default.kind === 'text') read(`default of ${row.env}`, row.default.text, 'default')
    const inFile = nodeAt(file, row.path)
    if (inFile !== undefined) {
      const text = textOf(inFile, row.kind)
      if (text.kind === 'value') read(row.path, text.value, 'file')
      else refuse(row.path, JSON.stringify(inFile), text.reason)
    }
    const inEnvironment = env[row.env]
    if (inEnvironment !== undefined) read(row.env, inEnvironment, 'environment')
    if (row.default.kind === 'required' && inFile === undefined && inEnvironment === undefined)
      errors.push({ kind: 'missing', name: row.env, accepts: row.kind.accepts })
  }
  return { settings: settings as Partial<Settings>, origins }
}

function missingUpstream(settings: Partial<Settings>): readonly ConfigError[] {
  const listens = settings.proxyListen !== undefined && settings.proxyListen.kind !== 'off'
  // A refused address is present and undefined: it has an error of its own.
  if (!listens || 'upstream' in settings) return []
  return [missingSetting(SETTINGS.upstream, 'while the proxy listens')]
}

/** A client that reaches the reservation API, or the listener for gateways, can hold and complete any record. */
function missingToken(settings: Partial<Settings>): readonly ConfigError[] {
  if ('apiToken' in settings) return []
  const open = [
    ['the reservation API', settings.apiListen],
    ['the gateway listener', settings.gatewayListen],
    ['the gRPC listener for gateways', settings.gatewayGrpcListen],
  ] as const
  return open
    .filter(([, at]) => at?.kind === 'tcp' && !isLoopback(at.host))
    .map(([name]) => missingSetting(SETTINGS.apiToken, `while ${name} can be reached from elsewhere`))
}

/** A decision has an author: without names there is no operator listener, on whatever address. */
function missingOperatorTokens(settings: Partial<Settings>): readonly ConfigError[] {
  const isOpen = settings.operatorListen !== undefined && settings.operatorListen.kind !== 'off'
  if (!isOpen || 'operatorTokens' in settings) return []
  return [missingSetting(SETTINGS.operatorTokens, 'while the operator listener is on')]
}

/** With too few or too many names, nodes would get the names of others. */
function unevenNames({ redisNodes, redisNodeNames }: Partial<Settings>): readonly ConfigError[] {
  if (redisNodeNames === undefined || redisNodes?.kind !== 'remote') return []
  const names = redisNodeNames.length
  const nodes = redisNodes.groups.flatMap((group) => group.nodes).length
  if (names === nodes) return []
  const inequality = `names (${names}) = nodes (${nodes}, ${SETTINGS.redisNodes.env})`
  const { env: name } = SETTINGS.redisNodeNames
  return [{ kind: 'relation', name, inequality, reason: 'each node has one name, in the same order' }]
}

function nodeAt(file: YamlFile, path: string): unknown {
  let node: unknown = file
  for (const name of path.split('.')) {
    if (!isMapping(node) || !Object.hasOwn(node, name)) return undefined
    node = node[name]
  }
  return node
}

/** Every key of the file besides `routes` is a setting or a group of settings. */
function unknownKeys(file: YamlFile): ConfigError[] {
  const paths = [...SETTING_KEYS.map((key) => rowOf(key).path), 'routes']
  const groups = new Set(paths.filter((path) => path.includes('.')).map((path) => path.split('.')[0]!))
  return Object.entries(file).flatMap(([name, node]): ConfigError[] => {
    if (!groups.has(name))
      return paths.includes(name) ? [] : [unknown(name, nearestPath(name, [...paths, ...groups]))]
    if (node === null) return []
    if (!isMapping(node)) return [{ kind: 'file', name, reason: 'it is not a mapping of settings' }]
    return Object.keys(node)
      .map((member) => `${name}.${member}`)
      .filter((path) => !paths.includes(path))
      .map((path) => unknown(path, nearestPath(path, paths)))
  })
}

/**
 * Kubernetes describes every Service to every container by variables: one called `fencepost-redis` makes
 * FENCEPOST_REDIS_SERVICE_HOST, FENCEPOST_REDIS_PORT and FENCEPOST_REDIS_PORT_6379_TCP_ADDR. These are no mistakes.
 */
const SERVICE_LINK = /_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/

function unknownVariables(env: Environment): ConfigError[] {
  const known = [CONFIG_FILE_ENV, ...SETTING_KEYS.map((key) => rowOf(key).env)]
  return Object.keys(env)
    .filter((name) => name.startsWith('FENCEPOST_') && env[name] !== undefined)
    .filter((name) => !known.includes(name) && !NAMES_OF_OTHERS.includes(name))
    .filter(
      (name) => !SERVICE_LINK.test(name) && !(name.endsWith('_PORT') && /^[a-z]+:\/\//.test(env[name] ?? '')),
    )
    .map((name) => unknown(name, nearestName(name, known)))
}

function unknown(name: string, nearest: string | undefined): ConfigError {
  return nearest === undefined ? { kind: 'unknown', name } : { kind: 'unknown', name, nearest }
}

function deepFreeze<T>(of: T): T {
  // The bytes of a buffer can't be frozen; no code writes to a key.
  if (typeof of !== 'object' || of === null || Object.isFrozen(of) || ArrayBuffer.isView(of)) return of
  Object.freeze(of)
  for (const member of Object.values(of)) deepFreeze(member)
  return of
}
