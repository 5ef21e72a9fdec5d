import { describe, expect, test } from 'vitest'
import { listenAddress, maskPasswords, redisNodes, upstreamAddress } from '../../src/config/addresses.ts'
import type { ValueKind } from '../../src/config/value.ts'

const read = <T>(kind: ValueKind<T>, text: string) => {
  const parsed = kind.parse(text, () => '')
  return parsed.kind === 'value' ? parsed.value : (parsed.reason ?? 'refused')
}

test.each<[text: string, address: unknown]>([
  ['0.0.0.0:8080', { kind: 'tcp', host: '0.0.0.0', port: 8080 }],
  ['localhost:0', { kind: 'tcp', host: 'localhost', port: 0 }],
  ['[::1]:8081', { kind: 'tcp', host: '::1', port: 8081 }],
  ['unix:/run/fencepost.sock', { kind: 'unix', path: '/run/fencepost.sock' }],
  ['off', { kind: 'off' }],
  ['8080', 'refused'],
  [':8080', 'refused'],
  ['::1:8080', 'refused'],
  ['localhost:65536', 'refused'],
  ['localhost:', 'refused'],
  ['http://localhost:8080', 'refused'],
  ['unix:relative', 'refused'],
  ['OFF', 'refused'],
  ['', 'refused'],
])('listening on %j', (text, address) => {
  expect(read(listenAddress(), text)).toEqual(address)
})

test.each(['0.0.0.0:8080', '[::1]:8081', 'unix:/run/a.sock', 'off'])(
  '%s is printed as it is written',
  (text) => {
    const parsed = listenAddress().parse(text, () => '')
    expect(parsed.kind === 'value' && listenAddress().print(parsed.value)).toBe(text)
  },
)

test.each<[text: string, address: unknown]>([
  ['http://127.0.0.1:3000', { kind: 'http', origin: 'http://127.0.0.1:3000' }],
  ['http://127.0.0.1:3000/', { kind: 'http', origin: 'http://127.0.0.1:3000' }],
  ['https://app.example.com', { kind: 'http', origin: 'https://app.example.com' }],
  ['unix:/run/app.sock', { kind: 'unix', path: '/run/app.sock' }],
  ['http://127.0.0.1:3000/api', 'it contains a path, a query or a fragment'],
  ['http://127.0.0.1:3000/?', 'it contains a path, a query or a fragment'],
  ['http://u:p@127.0.0.1:3000', 'it contains a user or a password'],
  ['127.0.0.1:3000', 'refused'],
  ['ftp://127.0.0.1', 'refused'],
  ['', 'refused'],
])('the application at %j', (text, address) => {
  expect(read(upstreamAddress(), text)).toEqual(address)
})

describe('nodes', () => {
  test('each URL gives host, port, TLS, database, user and password', () => {
    expect(read(redisNodes(), 'redis://a, rediss://u%40x:p%2Cw@B:6380/2 ,redis://[::1]:7000')).toEqual({
      kind: 'remote',
      groups: [
        {
          name: '',
          nodes: [
            { host: 'a', port: 6379, tls: false, database: 0 },
            { host: 'b', port: 6380, tls: true, database: 2, username: 'u@x', password: 'p,w' },
            { host: '::1', port: 7000, tls: false, database: 0 },
          ],
        },
      ],
    })
    expect(read(redisNodes(), 'embedded')).toEqual({ kind: 'embedded' })
  })

  const many = (count: number) => Array.from({ length: count }, (_, index) => `redis://h${index}`).join(',')

  test.each([3, 5, 7, 9])('%i of them are accepted', (count) => {
    expect(read(redisNodes(), many(count))).toHaveProperty('groups.0.nodes.length', count)
  })

  test.each<[text: string, reason: string]>([
    [many(1), '1 given'],
    [many(2), '2 given'],
    [many(4), '4 given'],
    [many(11), '11 given'],
    ['', 'entry 1 of 1: it is not a URL'],
    [`${many(3)},`, 'entry 4 of 4: it is not a URL'],
    ['redis://a,redis://b,http://c', 'entry 3 of 3: it is not redis:// or rediss://'],
    ['redis://a,redis://b,redis://b:6379/1', 'b:6379 appears twice, and one server is one vote'],
    ['redis://a/x,redis://b,redis://c', 'entry 1 of 3: its path is not the number of a database'],
    ['redis://a?db=1,redis://b,redis://c', 'entry 1 of 3: it contains a query or a fragment'],
    [
      'redis://:%zz@a,redis://b,redis://c',
      'entry 1 of 3: its user or password is not percent-encoded correctly',
    ],
  ])('%j: %s', (text, reason) => {
    expect(read(redisNodes(), text)).toBe(reason)
  })

  const group = (name: string, count = 3) =>
    `${name}=${Array.from({ length: count }, (_, index) => `redis://${name}${index}`).join(',')}`

  test('several groups are names with their nodes, each', () => {
    expect(read(redisNodes(), `${group('a')} ; ${group('eu-1')}`)).toMatchObject({
      groups: [
        { name: 'a', nodes: [{ host: 'a0' }, { host: 'a1' }, { host: 'a2' }] },
        { name: 'eu-1', nodes: [{ host: 'eu-10' }, { host: 'eu-11' }, { host: 'eu-12' }] },
      ],
    })
    // A single group may have a name, too, and keeps it when others come.
    expect(read(redisNodes(), group('a'))).toMatchObject({ groups: [{ name: 'a' }] })
    // A semicolon in a password ends no group.
    expect(read(redisNodes(), 'redis://:a;b@x,redis://y,redis://z')).toMatchObject({
      groups: [{ name: '', nodes: [{ password: 'a;b' }, {}, {}] }],
    })
  })

  test.each<[text: string, reason: string]>([
    [`${group('a')};${many(3)}`, 'group 2 of 2 has no name of 1 to 32 letters a-z, digits and -'],
    [`${group('A')};${group('b')}`, 'group 1 of 2 has no name of 1 to 32 letters a-z, digits and -'],
    [`${group('a')};${group('b', 2)}`, 'group b, 2 given'],
    [
      `${group('a')};b=redis://x,http://y,redis://z`,
      'group b, entry 2 of 3: it is not redis:// or rediss://',
    ],
    [`${group('a')};${group('b', 5)}`, 'groups of 3 and 5 nodes given, all need as many'],
    [`${group('a')};${group('a')}`, 'two groups are called a'],
    [`${group('a')};b=redis://x,redis://y,redis://a1`, 'a1:6379 appears twice, and one server is one vote'],
    [[...'abcde'].map((name) => group(name)).join(';'), '5 groups given, at most 4'],
  ])('%j: %s', (text, reason) => {
    expect(read(redisNodes(), text)).toBe(reason)
  })

  test('groups are printed as they are written, without passwords', () => {
    const parsed = redisNodes().parse(`a=redis://:secret@a,redis://b,redis://c;${group('d')}`, () => '')
    expect(parsed.kind === 'value' && redisNodes().print(parsed.value)).toBe(
      'a=redis://:***@a:6379,redis://b:6379,redis://c:6379;d=redis://d0:6379,redis://d1:6379,redis://d2:6379',
    )
  })

  test('nodes are printed without passwords', () => {
    const parsed = redisNodes().parse('redis://:secret@a,rediss://u:secret@b/1,redis://[::1]', () => '')
    expect(parsed.kind === 'value' && redisNodes().print(parsed.value)).toBe(
      'redis://:***@a:6379,rediss://u:***@b:6379/1,redis://[::1]:6379',
    )
  })
})

test.each([
  ['redis://:secret@a,redis://b', 'redis://***@a,redis://b'],
  ['redis://u:secret@a', 'redis://***@a'],
  ['redis://u:se@cret@a', 'redis://***@a'],
  ['redis://u:12,34@a,redis://b:1', 'redis://***@a,redis://b:1'],
  ['redis://u:secret', 'redis://***'],
  ['u:secret@a:6379', '***@a:6379'],
  ['a=redis://:secret@a,redis://b;c=redis://u:secret@d', 'a=redis://***@a,redis://b;c=redis://***@d'],
  ['a=redis://u:secret;b=redis://c', 'a=redis://***;b=redis://c'],
  ['http://127.0.0.1:3000/path', 'http://127.0.0.1:3000/path'],
  ['localhost:6379', 'localhost:6379'],
])('the refused text %j is shown as %j', (text, shown) => {
  expect(maskPasswords(text)).toBe(shown)
})
