import { expect, test } from 'vitest'
import { grpcStatus } from '../../../src/core/formats/grpc-status.ts'
import type { HeaderList } from '../../../src/core/header-list.ts'
import { frame } from '../../support/frames.ts'

const WEB: HeaderList = [['Content-Type', 'application/grpc-web+proto']]
const GRPC: HeaderList = [['content-type', 'application/grpc+proto']]
const TEXT: HeaderList = [['content-type', 'application/grpc-web-text']]

const message = frame(0, 'paid')
const trailers = (lines: string) => frame(0x80, lines)
const text = (...frames: Buffer[]) => Buffer.from(frames.map((each) => each.toString('base64')).join(''))

test.each<[what: string, headers: HeaderList, body: Buffer, status: number | 'broken_off' | undefined]>([
  ['the last frame', WEB, Buffer.concat([message, trailers('grpc-status: 0\r\n')]), 0],
  ['a frame alone', WEB, trailers('grpc-message:gone\r\ngrpc-status:14\r\n'), 14],
  ['after messages', WEB, Buffer.concat([message, message, trailers('Grpc-Status: 5')]), 5],
  ['the head, of an answer without a body', [...WEB, ['Grpc-Status', '14']], Buffer.alloc(0), 14],
  ['base64, a frame at a time', TEXT, text(message, trailers('grpc-status: 14\r\n')), 14],
  ['base64, in one', TEXT, text(Buffer.concat([message, trailers('grpc-status: 7\r\n')])), 7],
  ['JSON', [['Content-Type', 'application/grpc-web+json; charset=utf-8']], trailers('grpc-status: 8\r\n'), 8],
  ['the head, of gRPC itself', [...GRPC, ['grpc-status', '14']], Buffer.alloc(0), 14],
  ['the head, of gRPC itself, behind messages', [...GRPC, ['grpc-status', '0']], message, 0],
  // Not known: it is what the status of HTTP says.
  ['another type', [['Content-Type', 'application/json']], trailers('grpc-status: 14\r\n'), undefined],
  [
    'a type that begins like it',
    [['Content-Type', 'application/grpcx']],
    trailers('grpc-status: 14\r\n'),
    undefined,
  ],
  ['the body of gRPC itself, which has real trailers', GRPC, trailers('grpc-status: 14\r\n'), undefined],
  ['no trailers', WEB, message, 'broken_off'],
  [
    'a body that a middleware has compressed',
    [...WEB, ['Content-Encoding', 'gzip']],
    Buffer.from('1f8b08', 'hex'),
    undefined,
  ],
  ['compressed trailers', WEB, frame(0x81, 'grpc-status: 14\r\n'), undefined],
  ['trailers without it', WEB, trailers('grpc-message: no\r\n'), undefined],
  ['no number', WEB, trailers('grpc-status: x\r\n'), undefined],
  ['a cut frame', WEB, trailers('grpc-status: 14\r\n').subarray(0, 12), 'broken_off'],
  ['a length beyond the body', WEB, Buffer.from([0x80, 0xff, 0xff, 0xff, 0xff, 0x67]), 'broken_off'],
  ['no frame', WEB, Buffer.from('no'), 'broken_off'],
  ['no base64', TEXT, Buffer.from('§§§'), 'broken_off'],
  ['nothing', WEB, Buffer.alloc(0), undefined],
])('the status of gRPC and gRPC-Web in %s', (_, headers, body, status) => {
  expect(grpcStatus({ headers, body })).toBe(status)
})
