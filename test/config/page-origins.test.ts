import { expect, test } from 'vitest'
import { pageOrigins } from '../../src/config/lists.ts'

test.each<[text: string, read: string]>([
  ['none', 'none'],
  ['https://shop.example', 'https://shop.example'],
  ['https://shop.example, http://localhost:5173', 'https://shop.example,http://localhost:5173'],
  ['capacitor://localhost', 'capacitor://localhost'],
  // A browser sends none of these, so they would never match.
  [
    'https://shop.example/',
    '"https://shop.example/" is not as a browser sends it, which is https://shop.example',
  ],
  [
    'https://Shop.example:443',
    '"https://Shop.example:443" is not as a browser sends it, which is https://shop.example',
  ],
  [
    'https://shop.example/checkout',
    '"https://shop.example/checkout" is not as a browser sends it, which is https://shop.example',
  ],
  ['shop.example', '"shop.example" is no origin'],
  ['null', '"null" is no origin'],
  ['https://', '"https://" is no origin'],
  ['https://a.example,', '"" is no origin'],
  ['', '"" is no origin'],
  ['*', '"*" is every page there is; name those that may read'],
  [`https://a.example${',https://a.example'.repeat(100)}`, '101 given'],
])('origins of pages %j', (text, read) => {
  const kind = pageOrigins()
  const parsed = kind.parse(text, () => '')
  expect(parsed.kind === 'value' ? kind.print(parsed.value) : parsed.reason).toBe(read)
})
