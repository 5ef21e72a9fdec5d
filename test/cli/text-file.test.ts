import { describe, expect, test } from 'vitest'
import { textOf } from '../../src/cli/files.ts'

describe('the text of a file', () => {
  test('is UTF-8, whatever its letters', () => {
    expect(textOf(Buffer.from('paths: ["/café/😀"]\r\n'))).toBe('paths: ["/café/😀"]\r\n')
  })

  // Bug: a password file that an editor had saved with a byte order mark had another password.
  test('begins after the byte order mark', () => {
    expect(textOf(Buffer.from('\ufeffsecret\n'))).toBe('secret\n')
    expect(textOf(Buffer.from('\ufeff\ufeffsecret'))).toBe('\ufeffsecret')
  })

  test.each([
    ['Latin-1', Buffer.from('/café', 'latin1'), 'it is not text in UTF-8; save it in UTF-8'],
    ['a key as it is', Buffer.from('8f00c0ff', 'hex'), 'it is not text in UTF-8; save it in UTF-8'],
    [
      'UTF-16',
      Buffer.from('\ufeffsecret', 'utf16le'),
      'it is not text in UTF-8, but in UTF-16; save it in UTF-8',
    ],
    [
      'UTF-16, the other way round',
      Buffer.from('\ufeffsecret', 'utf16le').swap16(),
      'it is not text in UTF-8, but in UTF-16; save it in UTF-8',
    ],
  ])('%s is refused with a sentence', (_, bytes, sentence) => {
    expect(() => textOf(bytes)).toThrow(sentence)
  })
})
