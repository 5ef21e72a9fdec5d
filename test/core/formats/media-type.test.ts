import { expect, test } from 'vitest'
import { isJson, parseMediaType } from '../../../src/core/formats/media-type.ts'

test.each<[value: string, normal: string | undefined]>([
  ['application/json', 'application/json'],
  [' Application/JSON ', 'application/json'],
  ['text/plain;charset=UTF-8', 'text/plain;charset="utf-8"'],
  ['text/plain ; Charset="utf-8"', 'text/plain;charset="utf-8"'],
  ['text/plain;a=B', 'text/plain;a="B"'],
  ['text/plain;a="x;\\"y\\\\"', 'text/plain;a="x;\\"y\\\\"'],
  ['text/plain;a="\\b"', 'text/plain;a="b"'],
  ['text/plain;a=""', 'text/plain;a=""'],
  ['text/plain;a="x\ty"', 'text/plain;a="x\ty"'],
  ['text/plain;;', 'text/plain'],
  ['text/plain;b=1;a=2', 'text/plain;b="1";a="2"'],
  ['multipart/form-data; boundary=X; a=1', 'multipart/form-data;a="1"'],
  ['text/plain; boundary=X', 'text/plain;boundary="X"'],
  ['', undefined],
  ['text', undefined],
  ['text/', undefined],
  ['/plain', undefined],
  ['text/plain/x', undefined],
  ['text /plain', undefined],
  ['text/plain, text/html', undefined],
  ['text/plain;a', undefined],
  ['text/plain;a=', undefined],
  ['text/plain;=b', undefined],
  ['text/plain;a =b', undefined],
  ['text/plain;a= b', undefined],
  ['text/plain;a="b', undefined],
  ['text/plain;a="b"c', undefined],
  ['text/plain;a="b\\"', undefined],
  ['text/plain;a=1;A=1', undefined],
  ['text/plain\u00a0', undefined],
])('%j: %j', (value, normal) => {
  expect(parseMediaType(value)?.normal).toBe(normal)
})

test.each<[value: string, json: boolean]>([
  ['application/json', true],
  ['application/json; charset=utf-8', true],
  ['application/json; charset=utf-16', false],
  ['application/problem+json', true],
  ['application/jsonlines', false],
  ['application/json-seq', false],
  ['text/plain', false],
])('%s is read as JSON: %s', (value, json) => {
  const media = parseMediaType(value)
  expect(media !== undefined && isJson(media)).toBe(json)
})

test.each<[value: string, normalOfJsonText: string]>([
  ['application/json; charset=UTF-8', 'application/json'],
  ['application/json; a=1; charset=utf-8; b=2', 'application/json;a="1";b="2"'],
  ['application/problem+json; charset="utf-8"', 'application/problem+json'],
  ['application/json; charset=utf-16', 'application/json;charset="utf-16"'],
  ['application/json; charset=utf8', 'application/json;charset="utf8"'],
  ['text/plain; charset=utf-8', 'text/plain;charset="utf-8"'],
  ['text/x+json; charset=utf-8', 'text/x+json;charset="utf-8"'],
  ['application/xml; charset=utf-8', 'application/xml;charset="utf-8"'],
])('of JSON text, %s is %s', (value, normalOfJsonText) => {
  expect(parseMediaType(value)).toMatchObject({ normalOfJsonText })
})
