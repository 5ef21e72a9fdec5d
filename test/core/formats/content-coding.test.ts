import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  CODINGS_MAX,
  codingsOf,
  decodeBody as decodeBodyOf,
} from '../../../src/core/formats/content-coding.ts'

const encoders = new Map<string, (bytes: Uint8Array) => Uint8Array>([
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
  ['zstd', zstdCompressSync],
])
const names = [...encoders.keys()]
const encode = (bytes: Uint8Array, codings: readonly string[]) =>
  codings.reduce<Uint8Array>((encoded, coding) => encoders.get(coding)!(encoded), bytes)
const TEXT = Buffer.from('hello hello hello')

function decodeBody(bytes: Uint8Array, codings: readonly string[], bytesMax: number, client = 'a client') {
  return decodeBodyOf(bytes, codings, bytesMax, client)
}

test('up to four codings are undone from the last to the first', async () => {
  const codings = fc.array(fc.constantFrom(...names), { maxLength: CODINGS_MAX })
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), codings, async (bytes, applied) => {
      const decoded = await decodeBody(encode(bytes, applied), applied, 10_000)
      if (decoded.kind !== 'decoded') expect.fail(decoded.reason)
      expect([...decoded.bytes]).toEqual([...bytes])
    }),
  )
})

test.each(names)('%s: cut short, continued or broken, it is left as it came', async (coding) => {
  const whole = encode(TEXT, [coding])
  const broken = [
    new Uint8Array(),
    whole.subarray(0, -1),
    Buffer.concat([whole, Buffer.from('!')]),
    Buffer.concat([whole, Buffer.alloc(5)]),
    Buffer.from('not compressed at all'),
  ]
  for (const bytes of broken)
    expect(await decodeBody(bytes, [coding], 10_000)).toMatchObject({
      kind: 'encoded',
      reason: 'broken_coding',
    })
})

test.each(names)('%s: a result of the limit is decoded, one byte more is not', async (coding) => {
  const bytes = encode(TEXT, [coding])
  expect(await decodeBody(bytes, [coding], TEXT.length)).toMatchObject({ kind: 'decoded' })
  expect(await decodeBody(bytes, [coding], TEXT.length - 1)).toMatchObject({
    kind: 'encoded',
    reason: 'decoded_too_large',
    detail: 'more than 16 bytes when decoded',
  })
})

const LIMIT = 4 * 1024 * 1024
const LONG = gzipSync(Buffer.alloc(LIMIT))

/** The names of the bodies in the order in which they were decoded. */
async function orderOf(bodies: readonly [name: string, bytes: Uint8Array, client: string][]) {
  const ended: string[] = []
  const decodes = async ([name, bytes, client]: (typeof bodies)[number]) => {
    await decodeBody(bytes, ['gzip'], LIMIT, client)
    ended.push(name)
  }
  await Promise.all(bodies.map(decodes))
  return ended
}

/** Bug: a hundred requests of 4 KiB, 4 MiB each when decoded, were decoded at once and took 500 MB. */
test('long bodies of a client are decoded one after the other, and so are short ones', async () => {
  const ended = await orderOf([
    ['long', LONG, 'a'],
    ['broken', TEXT, 'a'],
    ['short', gzipSync(TEXT), 'a'],
    ['also long', LONG, 'a'],
  ])
  expect(ended.filter((name) => name.includes('long'))).toEqual(['long', 'also long'])
  expect(ended.filter((name) => !name.includes('long'))).toEqual(['broken', 'short'])
})

/** Bug: 300 bodies of one client, 17 bytes each that are 4 MiB, held up the compressed bodies of all others for a minute. */
test('the long bodies of one client hold up a short one of another for one try of one of them', async () => {
  const bombs = new Array(8).fill(0).map((_, nth) => [`bomb ${nth}`, LONG, 'a'] as const)
  const ended = await orderOf([
    ...bombs.map((one) => [...one] as [string, Buffer, string]),
    ['short', gzipSync(TEXT), 'b'],
  ])
  expect(ended.slice(0, 2)).toContain('short')
})

test('of long bodies each client has one in turn', async () => {
  const ended = await orderOf([
    ['a1', LONG, 'a'],
    ['a2', LONG, 'a'],
    ['a3', LONG, 'a'],
    ['b1', LONG, 'b'],
    ['c1', LONG, 'c'],
    ['b2', LONG, 'b'],
  ])
  expect(ended).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
})

test.each<[name: string, codings: string[], reason: string]>([
  ['an unknown coding', ['compress'], 'unknown_coding'],
  ['an unknown coding below a known one', ['compress', 'gzip'], 'unknown_coding'],
  ['five codings', new Array(CODINGS_MAX + 1).fill('gzip'), 'too_many_codings'],
  ['the name of a method of all objects', ['constructor'], 'unknown_coding'],
])('%s: all codings stay', async (_name, codings, reason) => {
  expect(await decodeBody(gzipSync(TEXT), codings, 10_000)).toMatchObject({
    kind: 'encoded',
    codings,
    reason,
  })
})

test('deflate is the zlib format; the bare stream that some clients send is left as it came', async () => {
  expect(await decodeBody(deflateRawSync(TEXT), ['deflate'], 10_000)).toMatchObject({
    reason: 'broken_coding',
  })
})

test.each<[lines: string[], codings: string[]]>([
  [[], []],
  [[''], []],
  [['GZip'], ['gzip']],
  [['x-gzip'], ['gzip']],
  [['identity'], []],
  [['gzip, identity ,br'], ['gzip', 'br']],
  [
    ['gzip', 'br'],
    ['gzip', 'br'],
  ],
  [[',gzip,,'], ['gzip']],
])('Content-Encoding %j names %j', (lines, codings) => {
  expect(codingsOf(lines)).toEqual(codings)
})
