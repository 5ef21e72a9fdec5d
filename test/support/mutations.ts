/**
 * Makes hostile messages out of good ones: bytes flipped, cut, doubled, and the pieces that parsers disagree about put
 * where they do not belong. Seeded, so that a failure can be repeated.
 */
import type { Random } from '../../src/core/ports.ts'

/** What requests are smuggled with. */
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
      // At the border of a line, where most of them mean something.
      const line = text.indexOf('\r\n', at)
      const border = line === -1 ? text.length : line + 2
      return text.slice(0, border) + pick(random, PIECES) + text.slice(border)
    }
  }
}
