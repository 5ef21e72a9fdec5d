import { expect, test } from 'vitest'
import { parseJson } from '../../../src/core/formats/json.ts'
import {
  compileSelection,
  POINTERS_MAX,
  parsePointer,
  valuesAt,
} from '../../../src/core/formats/json-pointer.ts'

test.each<[pointer: string, tokens: string[] | undefined]>([
  ['', []],
  ['/', ['']],
  ['/a/b', ['a', 'b']],
  ['/a~1b/m~0n/~01', ['a/b', 'm~n', '~1']],
  ['/*/0', ['*', '0']],
  ['a', undefined],
  ['#/a', undefined],
  ['/~', undefined],
  ['/~2', undefined],
])('%j: %j', (pointer, tokens) => {
  expect(parsePointer(pointer)).toEqual(tokens)
})

// The document of RFC 6901, section 5, and what each of its pointers selects.
const document = parseJson(
  Buffer.from(
    '{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\\\j":5,"k\\"l":6," ":7,"m~n":8}',
  ),
)
test.each<[pointer: string, values: string[]]>([
  ['/foo/0', ['bar']],
  ['/foo/*', ['bar', 'baz']],
  ['/foo/00', []],
  ['/foo/-', []],
  ['/foo/2', []],
  ['/', ['0']],
  ['/a~1b', ['1']],
  ['/c%d', ['2']],
  ['/e^f', ['3']],
  ['/g|h', ['4']],
  ['/i\\j', ['5']],
  ['/k"l', ['6']],
  ['/ ', ['7']],
  ['/m~0n', ['8']],
  ['/length', []],
  ['/toString', []],
])('%j chooses %j', (pointer, values) => {
  if (document.kind !== 'json') expect.fail(document.detail)
  const found = valuesAt(document.value, parsePointer(pointer) ?? [])
  expect(
    found.map((value) => ('text' in value ? value.text : 'value' in value ? value.value : value.kind)),
  ).toEqual(values)
})

test.each<[name: string, pointers: string[], pointer: string, detail: string]>([
  ['none', [], '', 'no pointers'],
  ['the whole document', ['/a', ''], '', 'the whole document is no part of it'],
  ['no pointer', ['/a', 'b'], 'b', 'a JSON Pointer is empty or begins with /'],
  [
    '101 pointers',
    Array.from({ length: POINTERS_MAX + 1 }, (_, i) => `/${i}`),
    '',
    '101 pointers, at most 100',
  ],
])('a selection of %s is refused with a reason', (_name, pointers, pointer, detail) => {
  expect(compileSelection('exclude', pointers)).toEqual({
    kind: 'invalid',
    pointer,
    detail: expect.stringContaining(detail),
  })
})
