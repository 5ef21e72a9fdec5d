/**
 * The YAML file, as plain values.
 *
 * YAML 1.2 without its traps: no anchors (a small file could unfold to a large one), no merge keys, no tags, no
 * repeated key, no second document (only the first would be read).
 */

import { parseDocument } from 'yaml'
import { errorText } from '../core/fault.ts'
import type { ConfigError } from './errors.ts'
import type { ReadFile } from './value.ts'

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
