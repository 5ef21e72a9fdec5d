import { expect, test } from 'vitest'
import { listeners, peers } from '../../src/config/lists.ts'
import type { ValueKind } from '../../src/config/value.ts'

const reread = <T>(kind: ValueKind<T>, text: string) => {
  const parsed = kind.parse(text, () => '')
  return parsed.kind === 'value' ? kind.print(parsed.value) : (parsed.reason ?? 'refused')
}

test.each<[text: string, read: string]>([
  ['any', 'any'],
  ['none', 'none'],
  ['10.0.0.0/8', '10.0.0.0/8'],
  ['10.1.2.3, ::1', '10.1.2.3/32,::1/128'],
  ['fd00::/8', 'fd00::/8'],
  ['10.0.0.0/33', '"10.0.0.0/33" is neither an address nor a CIDR block'],
  ['::/129', '"::/129" is neither an address nor a CIDR block'],
  ['gateway.local', '"gateway.local" is neither an address nor a CIDR block'],
  ['10.0.0.0/8,', '"" is neither an address nor a CIDR block'],
  ['10.0.0.0/-1', '"10.0.0.0/-1" is neither an address nor a CIDR block'],
  ['', '"" is neither an address nor a CIDR block'],
])('peers %j', (text, read) => {
  expect(reread(peers(), text)).toBe(read)
})

test.each<[text: string, read: string]>([
  ['proxy', 'proxy'],
  ['admin, proxy', 'proxy,admin'],
  ['proxy,proxy', 'refused'],
  ['all', 'refused'],
  ['', 'refused'],
])('listeners %j', (text, read) => {
  expect(reread(listeners(), text)).toBe(read)
})
