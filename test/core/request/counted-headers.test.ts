/** The headers that count without being chosen: what is written of them elsewhere names the same ones. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { countedIn, SAYING_WHAT, SAYING_WHO } from '../../../src/core/request/counted-headers.ts'

const textOf = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')

/** Names between backquotes in the rows of the table behind a heading or a sentence. */
function namesBehind(text: string, mark: string): readonly string[] {
  const [, table = ''] = /((?:^\|.*\n)+)/m.exec(text.slice(text.indexOf(mark))) ?? []
  return [...table.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name.toLowerCase()).sort()
}

test('the reference names each of them', () => {
  const page = textOf('docs/reference/fingerprint.md')
  expect(namesBehind(page, '### Headers that count without being chosen')).toEqual([...SAYING_WHAT].sort())
  expect(namesBehind(page, 'the identity has `said:`')).toEqual([...SAYING_WHO].sort())
})

// Envoy's HTTP check hands on what is listed alone: a header that is missing there would merge two requests.
test('the configuration for Envoy hands each of them on', () => {
  const [, handedOn = ''] =
    /\n {22}allowed_headers:\n((?: {24}.*\n)+)/.exec(textOf('deploy/gateways/envoy/ext-authz-http.yaml')) ??
    []
  const names = [...handedOn.matchAll(/- exact: (\S+)/g)].map(([, name]) => name)
  expect(names).toEqual(expect.arrayContaining([...SAYING_WHAT, ...SAYING_WHO]))
})

test('they are found in any case, each once, sorted', () => {
  const headers = [
    ['Upload-Offset', '1'],
    ['Depth', '0'],
    ['upload-offset', '2'],
    ['accept', '*/*'],
  ] as const
  expect(countedIn(headers, SAYING_WHAT)).toEqual(['depth', 'upload-offset'])
  expect(countedIn(headers, SAYING_WHO)).toEqual([])
})

test('no header both says who and what', () => {
  expect([...SAYING_WHO].filter((name) => SAYING_WHAT.has(name))).toEqual([])
})
