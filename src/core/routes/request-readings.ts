/**
 * The ways in which an application may read the head of a request: its path, its method, and the names of its headers.
 *
 * Owns what overrides a method. A form field can, too (`_method` of Rails, Laravel and Symfony): no body is read to find a route, and
 * `config/hints.ts` says which routes such a form passes by.
 */

import { isAliasing, readName } from '../formats/header-lines.ts'
import { queryValues } from '../formats/query.ts'
import type { HeaderList } from '../header-list.ts'
import { type Reading, readingsOf } from './path-pattern.ts'

export type RequestReading = {
  readonly path: Reading
  readonly method: string
  /** `any-spelling`: `X_Mode` may be read as `X-Mode`, or not. */
  readonly names: 'as-written' | 'any-spelling'
}

type Head = {
  readonly method: string
  readonly path: string
  readonly query: string | undefined
  readonly headers: HeaderList
}

/** Each way; the first is by the standard. */
export function readingsOfRequest({ method, path, query, headers }: Head): readonly RequestReading[] {
  const paths = readingsOf(path)
  const methods = [method, ...overridesOf(headers, query)]
  const readings: RequestReading[] = []
  for (const names of namesOf(headers))
    for (const one of methods) for (const way of paths) readings.push({ path: way, method: one, names })
  return readings
}

const AS_WRITTEN = ['as-written'] as const
const BOTH = ['as-written', 'any-spelling'] as const

function namesOf(headers: HeaderList): readonly RequestReading['names'][] {
  return headers.some(([name]) => isAliasing(name)) ? BOTH : AS_WRITTEN
}

export const METHOD_OVERRIDES = 'x-http-method-override x-http-method x-method-override'

const OVERRIDES: ReadonlySet<string> = new Set(METHOD_OVERRIDES.split(' '))

function overridesOf(headers: HeaderList, query: string | undefined): readonly string[] {
  const stated = headers.filter(([name]) => name[0]?.toLowerCase() === 'x' && OVERRIDES.has(readName(name)))
  const asked = query?.includes('ethod') ? queryValues(query, '_method') : []
  return [...stated.map(([, value]) => value), ...asked].map((value) => value.trim().toUpperCase())
}
