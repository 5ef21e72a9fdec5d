/**
 * JSON Pointers with `*`, and what they choose in a document.
 *
 * Owns three acts on a document as `json.ts` reads it: finding the values at a pointer, removing what is excluded, and
 * keeping only what is included. `*` as a whole reference token stands for every member or element; a member whose name
 * is `*` cannot be named alone. `-` (the element after the last) never matches.
 *
 * Source: RFC 6901.
 */

import type { Json, Member } from './json.ts'

/** RFC 6901; with `*` allowed, a whole segment `*` stands for every element or member. */
export type JsonPointer = string

/** Most pointers in one selection: each of them is followed at each value of a document. */
export const POINTERS_MAX = 100

/** Exclude xor include, never both: their meaning for a value named twice would be ambiguous. */
export type Selection = {
  readonly mode: 'include' | 'exclude'
  /** As configured: sorted and without repetition, so that equal rules look equal. */
  readonly pointers: readonly JsonPointer[]
  readonly root: Choice
}

/** One token of all pointers laid over each other. */
type Choice = { readonly next: Map<string, Choice>; any: Choice | undefined; chosen: boolean }

type CompiledSelection =
  | { readonly kind: 'selection'; readonly selection: Selection }
  | { readonly kind: 'invalid'; readonly pointer: string; readonly detail: string }

const NULL: Json = { kind: 'null' }

export function compileSelection(
  mode: Selection['mode'],
  pointers: readonly JsonPointer[],
): CompiledSelection {
  const invalid = (pointer: string, detail: string) => ({ kind: 'invalid', pointer, detail }) as const
  if (pointers.length > POINTERS_MAX)
    return invalid('', `${pointers.length} pointers, at most ${POINTERS_MAX} are accepted`)
  if (pointers.length === 0) return invalid('', 'no pointers: leave the selection out instead')
  const root = newChoice()
  for (const pointer of pointers) {
    const tokens = parsePointer(pointer)
    if (tokens === undefined) return invalid(pointer, POINTER_EXPECTED)
    if (tokens.length === 0) return invalid(pointer, 'the whole document is no part of it')
    let choice = root
    for (const token of tokens) choice = descend(choice, token)
    choice.chosen = true
  }
  return { kind: 'selection', selection: { mode, pointers: [...new Set(pointers)].sort(), root } }
}

export const POINTER_EXPECTED = 'a JSON Pointer is empty or begins with /, and has ~ only as ~0 or ~1'

/** The reference tokens, unescaped; undefined where `pointer` is none. */
export function parsePointer(pointer: string): readonly string[] | undefined {
  if (pointer === '') return []
  if (!pointer.startsWith('/') || /~(?![01])/.test(pointer)) return undefined
  return pointer
    .slice(1)
    .split('/')
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** All values at a pointer: more than one where a member name is there twice or the pointer has a `*`. */
export function valuesAt(document: Json, tokens: readonly string[]): readonly Json[] {
  return tokens.reduce<readonly Json[]>(
    (values, token) =>
      values.flatMap((value) =>
        childrenOf(value)
          .filter((child) => token === '*' || child.name === token)
          .map((child) => child.value),
      ),
    [document],
  )
}

/** The rest of a document; undefined where none is left (only `include` can choose nothing). */
export function select(document: Json, selection: Selection): Json | undefined {
  return selection.mode === 'exclude'
    ? without(document, [selection.root])
    : within(document, [selection.root])
}

function without(value: Json, choices: readonly Choice[]): Json {
  switch (value.kind) {
    case 'object':
      return { kind: 'object', members: keep(value.members) }
    case 'array':
      return { kind: 'array', items: keep(childrenOf(value)).map((child) => child.value) }
    default:
      return value
  }

  function keep(children: readonly Member[]): Member[] {
    const kept: Member[] = []
    for (const child of children) {
      const deeper = follow(choices, child.name)
      if (deeper.some((choice) => choice.chosen)) continue
      kept.push(deeper.length === 0 ? child : { name: child.name, value: without(child.value, deeper) })
    }
    return kept
  }
}

/** Members without anything chosen in them vanish; elements become null, so that the others keep their places. */
function within(value: Json, choices: readonly Choice[]): Json | undefined {
  let found = false
  const chosenIn = (child: Member): Json | undefined => {
    const deeper = follow(choices, child.name)
    const part = deeper.some((choice) => choice.chosen)
      ? child.value
      : deeper.length === 0
        ? undefined
        : within(child.value, deeper)
    found ||= part !== undefined
    return part
  }
  const parts = childrenOf(value).map((child) => ({ name: child.name, value: chosenIn(child) }))
  if (!found) return undefined
  return value.kind === 'array'
    ? { kind: 'array', items: parts.map((part) => part.value ?? NULL) }
    : { kind: 'object', members: parts.filter((part): part is Member => part.value !== undefined) }
}

/** Members, or elements under their index as a name; none for a scalar. */
function childrenOf(value: Json): readonly Member[] {
  if (value.kind === 'object') return value.members
  return value.kind === 'array'
    ? value.items.map((item, index) => ({ name: String(index), value: item }))
    : []
}

function follow(choices: readonly Choice[], name: string): Choice[] {
  return choices
    .flatMap((choice) => [choice.next.get(name), choice.any])
    .filter((choice): choice is Choice => choice !== undefined)
}

function descend(choice: Choice, token: string): Choice {
  if (token === '*') {
    choice.any ??= newChoice()
    return choice.any
  }
  const existing = choice.next.get(token)
  if (existing !== undefined) return existing
  const created = newChoice()
  choice.next.set(token, created)
  return created
}

function newChoice(): Choice {
  return { next: new Map(), any: undefined, chosen: false }
}
