import fc from 'fast-check'
import { parseDictionary as theirDictionary, parseItem as theirItem } from 'structured-headers'
import { expect, test } from 'vitest'
import {
  FIELD_LENGTH_MAX,
  parseDictionary,
  parseStringItem,
} from '../../../src/core/formats/structured-field.ts'

// Rows as in the working group's own tests: the value of a field, or that it is refused.

test.each<[field: string, value: string | undefined]>([
  ['"a"', 'a'],
  ['""', ''],
  [' "a" ', 'a'],
  ['"a";b', 'a'],
  ['"a"; b=1;c=-1.5;d="x;y";e=tok:en/*;f=:YQ==:;g=?1;h=@-1', 'a'],
  ['"a";b=999999999999999', 'a'],
  ['"a";b=9999999999999999', undefined],
  ['"a";b=123456789012.123', 'a'],
  ['"a";b=1234567890123.1', undefined],
  ['"a";b=1.1234', undefined],
  ['"a";b=1.', undefined],
  ['"a";b=', undefined],
  ['"a";B=1', undefined],
  ['"a";1=1', undefined],
  ['"a" ;b=1', undefined],
  ['"a";b=?2', undefined],
  ['"a";b=:a?:', undefined],
  ['"a";b=@1.5', undefined],
  ['"a";b=%"%C3%bc"', undefined],
  ['"a";', undefined],
  ['\t"a"', undefined],
  ['"a', undefined],
  ['"\\"', undefined],
  ['"\x7f"', undefined],
  ['"a"b', undefined],
  ['a', undefined],
  ['1', undefined],
  [':YQ==:', undefined],
  ['', undefined],
])('item %j: %j', (field, value) => {
  expect(parseStringItem(field)).toBe(value)
})

test.each<[field: string, names: string[] | undefined]>([
  ['', []],
  ['  ', []],
  ['a', ['a']],
  ['a=1, b="x"', ['a', 'b']],
  ['a=1 \t,\t b', ['a', 'b']],
  ['a;x=1;y, b=2;z', ['a', 'b']],
  ['a=(1 2 "x";p=1);q, b', ['a', 'b']],
  ['a=( )', ['a']],
  ['a=()', ['a']],
  ['*=@-1 ', ['*']],
  ['a=@1, b', ['a', 'b']],
  ['a=@1;p', ['a']],
  ['a=(@1 2)', ['a']],
  ['a=@1.5', undefined],
  ['a=@', undefined],
  ['*a_-.1=t', ['*a_-.1']],
  ['a=1,', undefined],
  [',a=1', undefined],
  ['a=1 b=2', undefined],
  ['a=(1', undefined],
  ['a=(1"x")', undefined],
  ['A=1', undefined],
  ['a = 1', undefined],
])('dictionary %j: %j', (field, names) => {
  const dictionary = parseDictionary(field)
  expect(dictionary && [...dictionary.keys()]).toEqual(names)
})

test('a field of the limit is read, one character more is refused, and ten million never throw', () => {
  const item = (length: number) => parseStringItem(`"${'a'.repeat(length - 2)}"`)
  expect(item(FIELD_LENGTH_MAX)).toHaveLength(FIELD_LENGTH_MAX - 2)
  expect(item(FIELD_LENGTH_MAX + 1)).toBeUndefined()
  expect(item(10_000_000)).toBeUndefined()
  expect(parseDictionary('a,'.repeat(5_000_000))).toBeUndefined()
})

// Pieces of the grammar and of what nearly is, put together: what our parser reads, another's reads, and so with what it refuses.
const pieces = fc.constantFrom(
  ...[
    '"',
    '\\',
    'a',
    'abc',
    '"abc"',
    '""',
    ';',
    '=',
    ',',
    ' ',
    '\t',
    '\n',
    '(',
    ')',
    ':',
    '?1',
    '@12',
    '@-1',
    '-',
    '*',
    '/',
    '%',
    'x',
  ],
  ...[
    ':YWJj:',
    ':YWJ:',
    ':Y Q=:',
    ':=:',
    ':YQ:',
    ':YR==:',
    '%"a%c3%bc"',
    '%"%ff"',
    'sha-256',
    'a=1',
    '=:',
    ':,',
    'é',
    '\x7f',
  ],
  ...['1.5', '1.', '1.2345', '999999999999999', '9999999999999999', '123456789012.1', '1234567890123.1'],
)
const fields = fc
  .array(pieces, { maxLength: 9 })
  .map((some) => some.join(''))
  // structured-headers refuses whatever follows a date; RFC 9651, section 4.2.9, ends it where its digits end. Rows above have these.
  .filter((field) => !/@-?\d+[^\d]/.test(field))

function orRefused<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

test('the parser of structured-headers reads the same strings, and refuses the same fields', () => {
  const stringOf = (field: string) => {
    const [value] = orRefused(() => theirItem(field)) ?? []
    return typeof value === 'string' ? value : undefined
  }
  fc.assert(
    fc.property(fields, (field) => {
      expect(parseStringItem(field)).toBe(stringOf(field))
    }),
    { numRuns: 2_000, examples: [['"a"'], ['"\\"";p=:=:'], [' "a" '], ['a']] },
  )
})

test('… and the same dictionaries of bytes', () => {
  const shown = (entries: Iterable<readonly [string, ArrayBuffer | Buffer | undefined]>) =>
    [...entries].map(([name, bytes]) => [name, bytes && Buffer.from(bytes as Buffer).toString('hex')])
  const ours = (field: string) => {
    const members = parseDictionary(field)
    return (
      members &&
      shown([...members].map(([name, one]) => [name, one.type === 'bytes' ? one.value : undefined]))
    )
  }
  const theirs = (field: string) => {
    const members = orRefused(() => theirDictionary(field))
    return (
      members &&
      shown([...members].map(([name, [one]]) => [name, one instanceof ArrayBuffer ? one : undefined]))
    )
  }
  fc.assert(
    fc.property(fields, (field) => {
      expect(ours(field)).toEqual(theirs(field))
    }),
    { numRuns: 2_000, examples: [['a=:=:'], ['a=:YQ:'], ['a=:YR==:, b']] },
  )
})
