/** The judge of the fuzzer is tested first: which bytes it takes for one request, and which for none. */
import { expect, test } from 'vitest'
import { readRequest } from './strict-application.ts'

const HEAD = 'POST /a HTTP/1.1\r\nhost: a\r\n'

test.each<[what: string, bytes: string, read: string]>([
  ['no body', `${HEAD}\r\n`, 'request'],
  ['a body with its length', `${HEAD}content-length: 2\r\n\r\nok`, 'request'],
  ['chunks', `${HEAD}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`, 'request'],
  ['half a head', HEAD, 'incomplete'],
  ['half a body', `${HEAD}content-length: 2\r\n\r\no`, 'incomplete'],
  ['half a chunk', `${HEAD}transfer-encoding: chunked\r\n\r\n2\r\no`, 'incomplete'],
  ['two framings', `${HEAD}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok`, 'fault'],
  ['two equal lengths', `${HEAD}content-length: 2\r\ncontent-length: 2\r\n\r\nok`, 'fault'],
  ['a signed length', `${HEAD}content-length: +2\r\n\r\nok`, 'fault'],
  ['two hosts', `${HEAD}host: b\r\n\r\n`, 'fault'],
  ['no host', 'GET / HTTP/1.1\r\n\r\n', 'fault'],
  ['a space before the colon', `${HEAD}x : 1\r\n\r\n`, 'fault'],
  ['a bare LF', `${HEAD}x: 1\ny: 2\r\n\r\n`, 'fault'],
  ['a folded line', `${HEAD}x: 1\r\n y\r\n\r\n`, 'fault'],
  ['another version', 'GET / HTTP/1.0\r\nhost: a\r\n\r\n', 'fault'],
  ['a target without a slash', 'GET http://a/ HTTP/1.1\r\nhost: a\r\n\r\n', 'fault'],
  ['a chunk size with more', `${HEAD}transfer-encoding: chunked\r\n\r\n2;x\r\nok\r\n0\r\n\r\n`, 'fault'],
  ['a chunk that is longer', `${HEAD}transfer-encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n`, 'fault'],
])('%s is read as %s', (_what, bytes, read) => {
  expect(readRequest(bytes).kind).toBe(read)
})

test('bytes after a request are not part of it', () => {
  const one = `${HEAD}content-length: 2\r\n\r\nok`
  expect(readRequest(`${one}${one}`)).toMatchObject({ kind: 'request', length: one.length })
})
