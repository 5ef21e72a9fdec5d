/**
 * Durations, sizes, numbers, choices, names and files. Addresses have a file of their own.
 *
 * Durations and sizes carry their unit, whole numbers only; each kind has its limits, and the message names them.
 */

import { type KeyRing, parseKeyRing } from '../core/nodes/key-ring.ts'
import {
  OPERATOR_TOKEN_CHARS_MIN,
  type OperatorToken,
  parseOperatorTokens,
} from '../core/operator/operator-tokens.ts'
import { parseDuration, parseSize, printDuration, printSize } from '../core/quantity.ts'
import { type Parsed, type ReadFile, refused, type ValueKind, value } from './value.ts'

export function duration(limits: { readonly minMs: number; readonly maxMs: number }): ValueKind<number> {
  return {
    accepts: `a duration with its unit, such as 500ms, 30s, 5m or 24h, from ${printDuration(limits.minMs)} to ${printDuration(limits.maxMs)}`,
    parse: (text) => {
      const ms = parseDuration(text)
      return ms === undefined ? refused(hintForBareNumber(text)) : within(ms, limits.minMs, limits.maxMs)
    },
    print: printDuration,
    yaml: 'quantity',
    schema: { type: 'string', pattern: '^(0|[1-9][0-9]*)(ms|s|m|h|d)$' },
    limits: { min: limits.minMs, max: limits.maxMs },
  }
}

export function size(limits: { readonly minBytes: number; readonly maxBytes: number }): ValueKind<number> {
  return {
    accepts: `a size with its unit, such as 512B, 256KiB or 1MiB, from ${printSize(limits.minBytes)} to ${printSize(limits.maxBytes)}`,
    parse: (text) => {
      const bytes = parseSize(text)
      return bytes === undefined
        ? refused(hintForBareNumber(text))
        : within(bytes, limits.minBytes, limits.maxBytes)
    },
    print: printSize,
    yaml: 'quantity',
    schema: { type: 'string', pattern: '^(0|[1-9][0-9]*)(B|KiB|MiB|GiB)$' },
    limits: { min: limits.minBytes, max: limits.maxBytes },
  }
}

function hintForBareNumber(text: string): string | undefined {
  return /^[0-9.]+$/.test(text) ? 'it has no unit' : undefined
}

function within(amount: number, min: number, max: number) {
  return min <= amount && amount <= max ? value(amount) : refused<number>()
}

export function integer(limits: { readonly min: number; readonly max: number }): ValueKind<number> {
  return {
    accepts: `a whole number from ${limits.min} to ${limits.max}`,
    parse: (text) =>
      /^(0|[1-9][0-9]*)$/.test(text) ? within(Number(text), limits.min, limits.max) : refused(),
    print: String,
    yaml: 'number',
    schema: { type: 'integer', minimum: limits.min, maximum: limits.max },
  }
}

/** A fraction of one, `0.25` or `1/4`. */
export function fraction(): ValueKind<number> {
  return {
    accepts: 'a number from 0 to 1, such as 0.25 or 1/4',
    parse: (text) => {
      const quotient = /^([0-9]{1,9})\/([1-9][0-9]{0,8})$/.exec(text)
      if (quotient !== null) return within(Number(quotient[1]) / Number(quotient[2]), 0, 1)
      return /^[0-9](\.[0-9]{1,17})?$/.test(text) ? within(Number(text), 0, 1) : refused()
    },
    print: (share) =>
      (share > 0 && Number.isInteger(1 / share) ? `1/${1 / share}` : String(share)).replace(/^1\/1$/, '1'),
    yaml: 'number',
    schema: fractionSchema({ min: 0, max: 1 }),
  }
}

/** Of a quotient a pattern can't say how large it is. */
export function fractionSchema({ min, max }: { readonly min: number; readonly max: number }) {
  return {
    anyOf: [
      { type: 'number', minimum: min, maximum: max },
      { type: 'string', pattern: '^[0-9]{1,9}/[1-9][0-9]{0,8}$' },
    ],
  }
}

export function choice<const T extends string>(...options: readonly T[]): ValueKind<T> {
  return {
    accepts: oneOf(options),
    parse: (text) => {
      const chosen = options.find((option) => option === text)
      return chosen === undefined ? refused() : value(chosen)
    },
    print: String,
    yaml: 'text',
    schema: { type: 'string', enum: options },
  }
}

/** `on` or `off` (in YAML also true or false), and no other word: opinions about what means yes differ. */
export function onOff(): ValueKind<boolean> {
  return {
    accepts: oneOf(['on', 'off']),
    parse: (text) => (text === 'on' ? value(true) : text === 'off' ? value(false) : refused()),
    print: (on) => (on ? 'on' : 'off'),
    yaml: 'switch',
    schema: { enum: [true, false, 'on', 'off'] },
  }
}

function oneOf(options: readonly string[]): string {
  return options.length === 1 ? options[0]! : `${options.slice(0, -1).join(', ')} or ${options.at(-1)}`
}

/** Part of a namespace or a name in logs: 1 to 128 visible ASCII characters. */
export function label(): ValueKind<string> {
  return patterned('1 to 128 visible ASCII characters without spaces', /^[\x21-\x7e]{1,128}$/)
}

/** Accepted in any case, kept in lower case, as Node names the headers of a request. */
export function headerName(): ValueKind<string> {
  return patterned('a header name', /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}$/, (text) => text.toLowerCase())
}

export function patterned(
  accepts: string,
  pattern: RegExp,
  normalise: (text: string) => string = String,
): ValueKind<string> {
  return {
    accepts,
    parse: (text) => (pattern.test(text) ? value(normalise(text)) : refused()),
    print: String,
    yaml: 'text',
    schema: { type: 'string', pattern: pattern.source },
  }
}

/** `content` without a final line break, which an editor adds and no secret contains. */
export type FileContent = { readonly path: string; readonly content: string }

/** Reads the file at once: an unreadable path is an error at the start and not at the first request. */
export function file(): ValueKind<FileContent> {
  return {
    accepts: 'the path of a readable file that is not empty',
    parse: readWhole,
    print: (read) => read.path,
    mask: maskUnlessPath,
    yaml: 'text',
    schema: { type: 'string', minLength: 1 },
  }
}

/** A file of which only a form of its content is used. It is named, and its content never shown. */
export function fileAs<T extends { readonly path: string }>(
  accepts: string,
  formOf: (read: FileContent) => Parsed<T>,
): ValueKind<T> {
  return {
    ...file(),
    accepts,
    parse: (path, readFile) => {
      const read = readWhole(path, readFile)
      return read.kind === 'refused' ? refused(read.reason) : formOf(read.value)
    },
    print: (read) => read.path,
  }
}

/** The operator may have given the secret in place of its file: a value that does not look like a path is not shown. */
function maskUnlessPath(text: string): string {
  return looksLikePath(text) ? text : '***'
}

/** Base64 has slashes, too, a URL and lines of a file besides: what a path rarely has is taken for no part of one. */
function looksLikePath(text: string): boolean {
  if (!/^([A-Za-z]:)?[\w./\\@~+-]+$/.test(text)) return false
  if (!/[/\\]/.test(text)) return text.length < 16
  const isBase64 =
    /^[A-Za-z0-9+/]{22,}$/.test(text) && [/[A-Z]/, /[a-z]/, /[0-9]/].every((one) => one.test(text))
  return !isBase64
}

/** A shorter secret could be guessed: 128 bits take 22 characters of base64, 32 of hex digits. */
const SECRET_CHARS_MIN = 32

/** Secrets, one per line; one that is too short makes the whole file refused. */
export function secretFile(): ValueKind<FileContent> {
  return fileAs(
    `the path of a readable file with one secret of at least ${SECRET_CHARS_MIN} characters a line`,
    (read) => {
      const lines = read.content.split(/\r?\n/).filter((line) => line.trim() !== '')
      return lines.every((line) => line.trim().length >= SECRET_CHARS_MIN)
        ? value(read)
        : refused(`a line has fewer than ${SECRET_CHARS_MIN} characters`)
    },
  )
}

export function keyRingFile(): ValueKind<{ readonly path: string; readonly ring: KeyRing }> {
  return fileAs(
    'the path of a readable file with one key a line, `name base64`, of 32 bytes each, and perhaps a line `plain`',
    ({ path, content }) => {
      const parsed = parseKeyRing(content)
      return parsed.kind === 'ring' ? value({ path, ring: parsed.ring }) : refused(parsed.reason)
    },
  )
}

export function operatorTokensFile(): ValueKind<{
  readonly path: string
  readonly tokens: readonly OperatorToken[]
}> {
  return fileAs(
    `the path of a readable file with one person or tool a line, \`name role token\`, role view or operate, tokens of at least ${OPERATOR_TOKEN_CHARS_MIN} characters`,
    ({ path, content }) => {
      const parsed = parseOperatorTokens(content)
      return parsed.kind === 'tokens' ? value({ path, tokens: parsed.tokens }) : refused(parsed.reason)
    },
  )
}

function readWhole(path: string, readFile: ReadFile) {
  if (path === '') return refused<FileContent>()
  let content: string
  try {
    content = readFile(path)
  } catch (cause) {
    const { message, code = 'unreadable' } = cause as NodeJS.ErrnoException
    return refused<FileContent>(looksLikePath(path) ? message : `${code}: it does not look like a path`)
  }
  return content.trim() === ''
    ? refused<FileContent>('the file is empty')
    : value({ path, content: content.replace(/\r?\n$/, '') })
}
