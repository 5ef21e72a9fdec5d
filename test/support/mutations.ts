/**
 * Makes hostile messages of good ones: bytes flipped, cut, doubled, and pieces about which parsers disagree put in
 * wrong places. Seeded, so that a failure can be repeated.
 */
import type { Random } from '../../src/core/clock.ts'

/** The pieces of request smuggling. */
const PIECES = [
  '\r\n',
  '\n',
  '\r',
  '\0',
  ' ',
  '\t',
  ':',
  ',',
  ';',
  '\x7f',
  '\xff',
  '%00',
  '\r\n\r\n',
  '0\r\n\r\n',
  'Content-Length: 0\r\n',
  'Content-Length: 5\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding: identity\r\n',
  'Transfer-Encoding : chunked\r\n',
  'Connection: close\r\n',
  'Connection: keep-alive, Idempotency-Key\r\n',
  'Host: evil\r\n',
  'Expect: 100-continue\r\n',
  'Upgrade: websocket\r\nConnection: Upgrade\r\n',
  'Trailer: X-T\r\n',
  'HTTP/1.0',
  'HTTP/1.1 100 Continue\r\n\r\n',
  'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n',
  'ffffffff\r\n',
  '-1\r\n',
] as const

export function pick<T>(random: Random, options: readonly T[]): T {
  return options[Math.floor(random.fraction() * options.length)]!
}

/** One to three mutations of a Latin-1 text. */
export function mutate(text: string, random: Random): string {
  let mutated = text
  for (let rounds = 1 + Math.floor(random.fraction() * 3); rounds > 0; rounds -= 1)
    mutated = mutateOnce(mutated, random)
  return mutated
}

function mutateOnce(text: string, random: Random): string {
  const at = Math.floor(random.fraction() * (text.length + 1))
  const upTo = at + Math.floor(random.fraction() * 12)
  switch (Math.floor(random.fraction() * 7)) {
    case 0:
      return text.slice(0, at) + String.fromCharCode(Math.floor(random.fraction() * 256)) + text.slice(at + 1)
    case 1:
      return text.slice(0, at) + text.slice(upTo)
    case 2:
      return text.slice(0, upTo) + text.slice(at)
    case 3:
      return text.slice(0, at)
    case 4:
      return text.slice(0, at) + pick(random, PIECES) + text.slice(at)
    default: {
      // At the border of a line, where most of them have a meaning.
      const line = text.indexOf('\r\n', at)
      const border = line === -1 ? text.length : line + 2
      return text.slice(0, border) + pick(random, PIECES) + text.slice(border)
    }
  }
}

/**
 * One to three mutations that keep lines whole: lines doubled, moved, removed, renamed, repeated with another value,
 * and whole messages behind each other. Byte mutations seldom make these: well-formed lines that contradict each other.
 */
export function restructure(text: string, random: Random): string {
  let mutated = text
  for (let rounds = 1 + Math.floor(random.fraction() * 3); rounds > 0; rounds -= 1)
    mutated = restructureOnce(mutated, random)
  return mutated
}

const LINES = [
  'Content-Length: 0',
  'Content-Length: 2',
  'Content-Length: 99',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: chunked, identity',
  'Idempotency-Key: another',
  'Idempotency-Key: "another"',
  'Host: b',
  'Connection: close',
  'Connection: idempotency-key, content-length',
  'Expect: 100-continue',
  'Upgrade: h2c',
  'Trailer: Content-Length',
  'Content-Encoding: gzip',
  'Content-Type: multipart/form-data; boundary=x',
  'Content-Digest: sha-256=:AAAA:',
  'X-Tenant-Id: other',
  'Fencepost-Fencing-Token: 9007199254740991',
  'Idempotent-Replayed: true',
  'Retry-After: 1',
  'Set-Cookie: a=b',
  'Max-Forwards: 0',
] as const

function restructureOnce(text: string, random: Random): string {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd === -1) return text
  const [first = '', ...lines] = text.slice(0, headEnd).split('\r\n')
  const rest = text.slice(headEnd)
  const at = Math.floor(random.fraction() * (lines.length + 1))
  const together = (of: readonly string[], body = rest) => [first, ...of].join('\r\n') + body
  switch (Math.floor(random.fraction() * 7)) {
    case 0:
      return together(lines.toSpliced(at, 0, pick(random, LINES)))
    case 1:
      return together(lines.toSpliced(at, 1))
    case 2:
      return together(lines.toSpliced(at, 0, ...lines.slice(at, at + 1)))
    case 3:
      return together(lines.toReversed())
    case 4:
      return together(lines.map((line, index) => (index === at ? line.toUpperCase() : line)))
    case 5:
      return `${text}${text}`
    default:
      return together(lines, `${rest}${rest.slice(4)}`)
  }
}
