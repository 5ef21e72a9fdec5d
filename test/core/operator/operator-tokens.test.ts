/** The file that says who may call the operator listener. */
import { expect, test } from 'vitest'
import { parseOperatorTokens } from '../../../src/core/operator/operator-tokens.ts'

const T = (digit: string) => digit.repeat(32)

test('one person or tool a line; a name may have two tokens while they are rotated', () => {
  const content = `# on call\nann view ${T('1')}\n\n  bob  operate\t${T('2')}\r\nbob operate ${T('3')}\n`
  expect(parseOperatorTokens(content)).toEqual({
    kind: 'tokens',
    tokens: [
      { name: 'ann', role: 'view', token: T('1') },
      { name: 'bob', role: 'operate', token: T('2') },
      { name: 'bob', role: 'operate', token: T('3') },
    ],
  })
})

test.each([
  ['nothing', '# nobody\n', 'there is no token in it'],
  ['a token alone', T('1'), 'line 1 is not "name role token"'],
  ['four words', `ann view ${T('1')} more`, 'line 1 is not "name role token"'],
  ['a role that there is not', `ann admin ${T('1')}`, 'the role on line 1 is neither view nor operate'],
  [
    'a short token',
    `ann view ${'1'.repeat(31)}`,
    'the token on line 1 is not 32 to 512 visible ASCII characters',
  ],
  [
    'a token of other letters',
    `ann view ${'é'.repeat(32)}`,
    'the token on line 1 is not 32 to 512 visible ASCII characters',
  ],
  [
    'a name with a slash',
    `a/b view ${T('1')}`,
    'the name on line 1 is not 1 to 64 of letters, digits and . _ @ -',
  ],
  ['one token for two', `ann view ${T('1')}\nbob operate ${T('1')}`, 'the token on line 2 is there twice'],
])('%s is refused, by its line and never by its content', (_, content, reason) => {
  const parsed = parseOperatorTokens(content)
  expect(parsed).toEqual({ kind: 'refused', reason })
  expect(JSON.stringify(parsed)).not.toContain(T('1'))
})

test('at most 1000 tokens', () => {
  const lines = Array.from({ length: 1_001 }, (_, at) => `ann view ${String(at).padStart(32, '0')}`)
  expect(parseOperatorTokens(lines.slice(1).join('\n')).kind).toBe('tokens')
  expect(parseOperatorTokens(lines.join('\n'))).toEqual({
    kind: 'refused',
    reason: 'it has more than 1000 tokens',
  })
})
