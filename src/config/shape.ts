/**
 * Shapes of YAML nodes: reading one and its JSON Schema, from one description.
 *
 * A shape reports every error below its node, each with its path (`routes[2].wait.max`), and returns undefined in place
 * of a wrong value; it never repairs.
 */

import { parseDocument } from 'yaml'
import { errorText } from '../core/fault.ts'
import { type ConfigError, nearestName } from './errors.ts'
import { type ReadFile, textOf, type ValueKind } from './value.ts'

export type Report = (error: ConfigError) => void

export type Shape<T> = {
  /** Completes "accepted is …". */
  readonly accepts: string
  readonly read: (node: unknown, at: string, report: Report) => T | undefined
  readonly schema: Readonly<Record<string, unknown>>
}

type ReadBy<S> = S extends Shape<infer T> ? T : never

type Fields = Readonly<Record<string, Shape<unknown>>>

/** The given members; those that are not given are missing. */
export type Given<F extends Fields> = { readonly [K in keyof F]?: ReadBy<F[K]> }

const NO_FILES = () => {
  throw new Error('files are named in the table of settings only')
}

export function scalar<T>(kind: ValueKind<T>): Shape<T> {
  return {
    accepts: kind.accepts,
    read: (node, at, report) => {
      const text = textOf(node, kind as ValueKind<unknown>)
      const parsed = text.kind === 'value' ? kind.parse(text.value, NO_FILES) : text
      if (parsed.kind === 'value') return parsed.value
      const shown = typeof node === 'string' ? (kind.mask?.(node) ?? node) : node
      report(refusedNode(at, shown, kind.accepts, parsed.reason))
      return undefined
    },
    schema: kind.schema,
  }
}

export function listOf<T>(
  member: Shape<T>,
  limits: { readonly max: number; readonly min?: number },
): Shape<readonly T[]> {
  const min = limits.min ?? 0
  const accepts = `a list of ${min} to ${limits.max} entries`
  return {
    accepts,
    read: (node, at, report) => {
      if (!Array.isArray(node) || node.length < min || node.length > limits.max) {
        report(refusedNode(at, node, accepts))
        return undefined
      }
      const read = node.map((each, index) => member.read(each, `${at}[${index}]`, report))
      return read.every((each) => each !== undefined) ? read : undefined
    },
    schema: {
      type: 'array',
      items: member.schema,
      ...(min > 0 ? { minItems: min } : {}),
      maxItems: limits.max,
    },
  }
}

export function mapping<F extends Fields>(
  fields: F,
  required: readonly (keyof F & string)[] = [],
): Shape<Given<F>> {
  const accepts = `a mapping of ${Object.keys(fields).join(', ')}`
  return {
    accepts,
    read: (node, at, report) => {
      if (!isMapping(node)) {
        report(refusedNode(at, node, accepts))
        return undefined
      }
      const given: Record<string, unknown> = {}
      for (const [name, member] of Object.entries(node)) {
        const field = Object.hasOwn(fields, name) ? fields[name] : undefined
        if (field === undefined) report(unknownName(`${at}.${name}`, Object.keys(fields), name, at))
        else given[name] = field.read(member, `${at}.${name}`, report)
      }
      for (const name of required)
        if (!Object.hasOwn(node, name))
          report({ kind: 'missing', name: `${at}.${name}`, accepts: fields[name]!.accepts })
      return given as Given<F>
    },
    schema: {
      type: 'object',
      properties: Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.schema])),
      additionalProperties: false,
      ...(required.length > 0 ? { required } : {}),
    },
  }
}

/** A mapping whose names the file chooses. */
export function entriesOf<T>(
  names: { readonly accepts: string; readonly pattern: RegExp },
  member: Shape<T>,
): Shape<readonly (readonly [name: string, value: T])[]> {
  const accepts = `a mapping with ${names.accepts} as its keys`
  return {
    accepts,
    read: (node, at, report) => {
      if (!isMapping(node)) {
        report(refusedNode(at, node, accepts))
        return undefined
      }
      return Object.entries(node).flatMap(([name, each]) => {
        if (!names.pattern.test(name)) {
          report(refusedNode(at, name, names.accepts))
          return []
        }
        const read = member.read(each, `${at}.${name}`, report)
        return read === undefined ? [] : [[name, read] as const]
      })
    },
    schema: {
      type: 'object',
      propertyNames: { pattern: names.pattern.source },
      additionalProperties: member.schema,
    },
  }
}

/** Either one of `words`, or a mapping with exactly one of `fields`. */
export function oneOf<const W extends string, F extends Fields>(
  words: readonly W[],
  fields: F,
): Shape<
  W | { [K in keyof F & string]: { readonly kind: K; readonly value: ReadBy<F[K]> } }[keyof F & string]
> {
  const accepts = [...words, ...Object.keys(fields).map((name) => `{${name}: …}`)].join(' or ')
  return {
    accepts,
    read: (node, at, report) => {
      const word = words.find((each) => each === node)
      if (word !== undefined) return word
      const [only, ...more] = isMapping(node) ? Object.entries(node) : []
      const field = only !== undefined && Object.hasOwn(fields, only[0]) ? fields[only[0]] : undefined
      if (only === undefined || field === undefined || more.length > 0) {
        report(refusedNode(at, node, accepts))
        return undefined
      }
      const value = field.read(only[1], `${at}.${only[0]}`, report)
      // The field whose shape has read the value names the kind.
      return value === undefined ? undefined : ({ kind: only[0], value } as never)
    },
    schema: {
      anyOf: [
        ...(words.length > 0 ? [{ enum: words }] : []),
        ...Object.entries(fields).map(([name, field]) => ({
          type: 'object',
          properties: { [name]: field.schema },
          required: [name],
          additionalProperties: false,
        })),
      ],
    },
  }
}

export function mapped<T, U>(shape: Shape<T>, to: (value: T) => U): Shape<U> {
  return {
    accepts: shape.accepts,
    read: (node, at, report) => {
      const read = shape.read(node, at, report)
      return read === undefined ? undefined : to(read)
    },
    schema: shape.schema,
  }
}

export function isMapping(node: unknown): node is Readonly<Record<string, unknown>> {
  return typeof node === 'object' && node !== null && !Array.isArray(node)
}

export function refusedNode(at: string, node: unknown, accepts: string, reason?: string): ConfigError {
  const given = typeof node === 'string' ? node : (JSON.stringify(node) ?? String(node))
  return { kind: 'refused', name: at, given, accepts, ...(reason === undefined ? {} : { reason }) }
}

function unknownName(name: string, known: readonly string[], given: string, at: string): ConfigError {
  const nearest = nearestName(given, known)
  return nearest === undefined
    ? { kind: 'unknown', name }
    : { kind: 'unknown', name, nearest: `${at}.${nearest}` }
}

/** The members of the file's top level; empty without a file. */
export type YamlFile = Readonly<Record<string, unknown>>

/** Some thousand routes. A larger file is surely the wrong one. */
const MOST_CHARACTERS = 2 ** 20

/** Adds what is wrong to `errors` and then behaves as if the file were empty. */
export function readYaml(path: string | undefined, readFile: ReadFile, errors: ConfigError[]): YamlFile {
  if (path === undefined) return {}
  const fail = (reason: string): YamlFile => {
    errors.push({ kind: 'file', name: `FENCEPOST_CONFIG: ${path === '' ? '""' : path}`, reason })
    return {}
  }
  let text: string
  try {
    text = readFile(path)
  } catch (cause) {
    return fail(`it can't be read: ${errorText(cause)}`)
  }
  if (text.length > MOST_CHARACTERS)
    return fail(`it has ${text.length} characters, at most ${MOST_CHARACTERS} are read`)
  const document = parseDocument(text, {
    version: '1.2',
    schema: 'core',
    merge: false,
    uniqueKeys: true,
    stringKeys: true,
    prettyErrors: true,
    // The quietest that still tells of a second document.
    logLevel: 'error',
  })
  if (document.errors.some(({ code }) => code === 'MULTIPLE_DOCS'))
    return fail('it has more than one document, and only one is read: leave out the line --- between them')
  // The others follow from the first: one tab or one wrong indent makes a fault of every line behind it.
  const [fault] = [...document.errors, ...document.warnings]
  if (fault !== undefined) return fail(`it is not YAML: ${fault.message.split('\n')[0]?.replace(/:$/, '')}`)
  let content: unknown
  try {
    content = document.toJS({ maxAliasCount: 0 })
  } catch (cause) {
    return fail(errorText(cause))
  }
  if (content === null || content === undefined) return {}
  if (typeof content !== 'object' || Array.isArray(content))
    return fail('its top level is not a mapping, such as `routes:` and below it the list')
  return content as YamlFile
}
