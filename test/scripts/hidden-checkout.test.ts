/** That a newcomer's commands do not see this repository, or say that they do. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { hideCheckout } from '../../scripts/hidden-checkout.ts'
import { folderOfTests } from '../support/during-tests.ts'

const folder = folderOfTests('hidden')
const hidden = join(folder, 'checkout')
mkdirSync(hidden)
writeFileSync(join(hidden, 'package.json'), '{}')
writeFileSync(join(folder, 'beside'), 'seen')

const ran = ([command, ...args]: readonly [string, ...string[]]) =>
  execFileSync(command, args, { cwd: folder, encoding: 'utf8' }).trim()

test('a command does not see what is hidden, sees what is beside it, and nobody else notices', () => {
  const { without, sentence } = hideCheckout(hidden)
  const seen = ran(without('sh', ['-c', 'ls "$0"; cat "$1"', hidden, join(folder, 'beside')]))
  if (sentence.startsWith('unchecked:')) expect(seen).toBe('package.json\nseen')
  else expect(seen).toBe('seen')
  expect(existsSync(join(hidden, 'package.json'))).toBe(true)
})

test('what can not be hidden is in sight, and the sentence says why', () => {
  const { without, sentence } = hideCheckout(join(folder, 'not-there'))
  expect(sentence).toMatch(/^unchecked: the checkout was in sight, because it can't be hidden here \(.+\)$/s)
  expect(without('ls', ['-a'])).toEqual(['ls', '-a'])
})
