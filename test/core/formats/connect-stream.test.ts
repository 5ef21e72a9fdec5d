import { expect, test } from 'vitest'
import { connectStreamStatus } from '../../../src/core/formats/grpc-status.ts'
import type { HeaderList } from '../../../src/core/header-list.ts'
import { frame } from '../../support/frames.ts'

const STREAM: HeaderList = [['Content-Type', 'application/connect+proto']]

const message = frame(0, 'paid')
const end = (data: string) => frame(0x02, data)
const failed = end('{"error":{"code":"unavailable","message":"later"}}')

test.each<[what: string, headers: HeaderList, body: Buffer, status: number | 'broken_off' | undefined]>([
  ['a stream that ended well', STREAM, Buffer.concat([message, end('{}')]), 0],
  ['one with trailers', STREAM, Buffer.concat([message, end('{"metadata":{"a":["b"]}}')]), 0],
  ['one that failed', STREAM, failed, 14],
  ['one that failed after messages', STREAM, Buffer.concat([message, message, failed]), 14],
  ['one after compressed messages', STREAM, Buffer.concat([frame(0x01, 'x'), failed]), 14],
  ['JSON', [['content-type', 'application/connect+json; charset=utf-8']], failed, 14],
  ['a code that nobody has defined', STREAM, end('{"error":{"code":"late"}}'), 2],
  ['an error without a code', STREAM, end('{"error":{}}'), 2],
  // Not known: it is what the status of HTTP says.
  ['another type', [['Content-Type', 'application/json']], failed, undefined],
  ['a call that is no stream', [['Content-Type', 'application/proto']], failed, undefined],
  ['no end', STREAM, message, 'broken_off'],
  [
    'a body that a middleware has compressed',
    [...STREAM, ['Content-Encoding', 'gzip']],
    Buffer.from('1f8b08', 'hex'),
    undefined,
  ],
  ['a compressed end', STREAM, frame(0x03, '{"error":{"code":"unavailable"}}'), undefined],
  ['an end that is no JSON', STREAM, end('no'), undefined],
  ['an end that is null', STREAM, end('null'), 0],
  ['a cut end', STREAM, failed.subarray(0, 12), 'broken_off'],
  ['a length beyond the body', STREAM, Buffer.from([0x02, 0xff, 0xff, 0xff, 0xff, 0x7b]), 'broken_off'],
  ['nothing', STREAM, Buffer.alloc(0), undefined],
])('the status of Connect of %s', (_, headers, body, status) => {
  expect(connectStreamStatus({ headers, body })).toBe(status)
})

test('the codes have the numbers of gRPC', () => {
  const said = (code: string) =>
    connectStreamStatus({ headers: STREAM, body: end(JSON.stringify({ error: { code } })) })
  expect(
    ['canceled', 'deadline_exceeded', 'not_found', 'already_exists', 'aborted', 'unauthenticated'].map(said),
  ).toEqual([1, 4, 5, 6, 10, 16])
})
