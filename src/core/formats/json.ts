/**
 * A strict JSON reader that loses nothing: members in their order and with their duplicates, numbers as their text.
 *
 * Owns the grammar of RFC 8259 and the limits on depth and number of values; decides nothing about meaning (that is
 * `canonical-json.ts`). An object is a list of members, never a JavaScript object, so a member named `__proto__` is one
 * like any other. It never throws: what cannot be read is refused with a reason.
 */

import { decodeUtf8 } from './framing.ts'

export type Json =
  | { readonly kind: 'null' }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'array'; readonly items: readonly Json[] }
  | { readonly kind: 'object'; readonly members: readonly Member[] }

export type Member = { readonly name: string; readonly value: Json }

export type JsonRefusal = 'byte_order_mark' | 'invalid_utf8' | 'syntax' | 'too_deep' | 'too_many_values'

type ParsedJson =
  | { readonly kind: 'json'; readonly value: Json }
  | { readonly kind: 'refused'; readonly reason: JsonRefusal; readonly detail: string }

/** Deepest nesting of arrays and objects. Reading and writing recurse, so this is what bounds the stack. */
export const JSON_DEPTH_MAX = 64

/** Most values in one document, each member and element being one. Bounds memory (some 100 bytes a value) and time. */
export const JSON_VALUES_MAX = 100_000

export function parseJson(bytes: Uint8Array): ParsedJson {
  const refused = (reason: JsonRefusal, detail: string): ParsedJson => ({ kind: 'refused', reason, detail })
  const text = decodeUtf8(bytes)
  if (text === undefined) return refused('invalid_utf8', 'the bytes are not valid UTF-8')
  if (text.startsWith('\ufeff')) return refused('byte_order_mark', 'begins with a byte order mark')
  const reader = new Reader(text)
  const value = reader.document()
  return value === undefined ? refused(reader.fault.reason, reader.fault.detail) : { kind: 'json', value }
}

/**
 * Whether the arrays and objects of a JSON text nest deeper than that: `JSON.parse` takes any depth, and what writes it again may run
 * out of stack. It goes over the text without recursion of its own.
 */
export function nestsDeeperThan(levels: number, text: string): boolean {
  let depth = 0
  let quoted = false
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]
    if (quoted) {
      if (character === '\\') at += 1
      else quoted = character !== '"'
    } else if (character === '"') quoted = true
    else if (character === '[' || character === '{') depth += 1
    else if (character === ']' || character === '}') depth -= 1
    if (depth > levels) return true
  }
  return false
}

const NULL: Json = { kind: 'null' }
const TRUE: Json = { kind: 'boolean', value: true }
const FALSE: Json = { kind: 'boolean', value: false }
const ESCAPED: ReadonlyMap<string, string> = new Map([
  ['"', '"'],
  ['\\', '\\'],
  ['/', '/'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
])
const HEX4 = /^[0-9a-fA-F]{4}$/

/** Each method returns undefined after it has set `fault`; the reader is then of no further use. */
class Reader {
  fault: { reason: JsonRefusal; detail: string } = { reason: 'syntax', detail: '' }
  readonly #text: string
  #at = 0
  #depth = 0
  #values = 0

  constructor(text: string) {
    this.#text = text
  }

  document(): Json | undefined {
    const value = this.#value()
    if (value === undefined) return undefined
    this.#skipWhitespace()
    return this.#at === this.#text.length ? value : this.#unexpected('the end')
  }

  #value(): Json | undefined {
    if (++this.#values > JSON_VALUES_MAX)
      return this.#refuse('too_many_values', `more than ${JSON_VALUES_MAX} values`)
    this.#skipWhitespace()
    switch (this.#text[this.#at]) {
      case '{':
        return this.#nested(() => this.#object())
      case '[':
        return this.#nested(() => this.#array())
      case '"': {
        const value = this.#string()
        return value === undefined ? undefined : { kind: 'string', value }
      }
      case 't':
        return this.#literal('true', TRUE)
      case 'f':
        return this.#literal('false', FALSE)
      case 'n':
        return this.#literal('null', NULL)
      default:
        return this.#number()
    }
  }

  #nested(read: () => Json | undefined): Json | undefined {
    if (++this.#depth > JSON_DEPTH_MAX)
      return this.#refuse('too_deep', `deeper than ${JSON_DEPTH_MAX} levels`)
    this.#at++
    const value = read()
    this.#depth--
    return value
  }

  #object(): Json | undefined {
    const members: Member[] = []
    this.#skipWhitespace()
    if (this.#take('}')) return { kind: 'object', members }
    for (;;) {
      this.#skipWhitespace()
      if (this.#text[this.#at] !== '"') return this.#unexpected('a member name')
      const name = this.#string()
      if (name === undefined) return undefined
      this.#skipWhitespace()
      if (!this.#take(':')) return this.#unexpected('a colon')
      const value = this.#value()
      if (value === undefined) return undefined
      members.push({ name, value })
      this.#skipWhitespace()
      if (this.#take('}')) return { kind: 'object', members }
      if (!this.#take(',')) return this.#unexpected('a comma or }')
    }
  }

  #array(): Json | undefined {
    const items: Json[] = []
    this.#skipWhitespace()
    if (this.#take(']')) return { kind: 'array', items }
    for (;;) {
      const item = this.#value()
      if (item === undefined) return undefined
      items.push(item)
      this.#skipWhitespace()
      if (this.#take(']')) return { kind: 'array', items }
      if (!this.#take(',')) return this.#unexpected('a comma or ]')
    }
  }

  #string(): string | undefined {
    const pieces: string[] = []
    let from = ++this.#at
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (Number.isNaN(code) || code < 0x20) return this.#unexpected('a character of a string')
      if (code !== 0x22 && code !== 0x5c) {
        this.#at++
        continue
      }
      pieces.push(this.#text.slice(from, this.#at++))
      if (code === 0x22) return pieces.length === 1 ? pieces[0] : pieces.join('')
      const escaped = this.#escape()
      if (escaped === undefined) return undefined
      pieces.push(escaped)
      from = this.#at
    }
  }

  #escape(): string | undefined {
    const letter = this.#text[this.#at] ?? ''
    if (letter === 'u') {
      const hex = this.#text.slice(this.#at + 1, this.#at + 5)
      if (!HEX4.test(hex)) return this.#unexpected('four hex digits')
      this.#at += 5
      return String.fromCharCode(Number.parseInt(hex, 16))
    }
    const char = ESCAPED.get(letter)
    if (char === undefined) return this.#unexpected('an escape')
    this.#at++
    return char
  }

  #literal(word: string, value: Json): Json | undefined {
    if (!this.#text.startsWith(word, this.#at)) return this.#unexpected(word)
    this.#at += word.length
    return value
  }

  /** `-? (0 | [1-9] digit*) (. digit+)? ([eE] [+-]? digit+)?`, by hand: a pattern over a million digits may overflow. */
  #number(): Json | undefined {
    const from = this.#at
    this.#take('-')
    if (!this.#take('0') && !this.#digits()) return this.#unexpected('a value')
    if (this.#take('.') && !this.#digits()) return this.#unexpected('a digit')
    if (this.#take('e') || this.#take('E')) {
      if (!this.#take('+')) this.#take('-')
      if (!this.#digits()) return this.#unexpected('a digit')
    }
    return { kind: 'number', text: this.#text.slice(from, this.#at) }
  }

  #digits(): boolean {
    const from = this.#at
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (!(code >= 0x30 && code <= 0x39)) return this.#at > from
      this.#at++
    }
  }

  #skipWhitespace(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
      this.#at++
    }
  }

  #take(char: string): boolean {
    if (this.#text[this.#at] !== char) return false
    this.#at++
    return true
  }

  #unexpected(expected: string): undefined {
    return this.#refuse('syntax', `${expected} expected at character ${this.#at}`)
  }

  #refuse(reason: JsonRefusal, detail: string): undefined {
    this.fault = { reason, detail }
    return undefined
  }
}
