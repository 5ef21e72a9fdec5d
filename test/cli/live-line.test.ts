import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { liveLine } from '../../src/cli/terminal.ts'

test.each([
  ['a terminal', true, '\r\u001b[2Ka\r\u001b[2Kaside\n\r\u001b[2Kb\n'],
  ['a pipe', false, 'a\naside\nb\n'],
])('on %s', (_, isTTY, expected) => {
  const stdout = Object.assign(new PassThrough({ encoding: 'utf8' }), { isTTY })
  const line = liveLine(stdout)
  line.show('a')
  line.aside('aside')
  line.show('b')
  line.end()
  expect(stdout.read()).toBe(expected)
})
