/** docs/reference/cli.md is what the commands say of themselves; else run `npm run generate -- commands`. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { commandReference } from '../../scripts/cli-reference.ts'
import { COMMANDS } from '../../src/cli/commands.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/reference/cli.md'), 'utf8')

test('docs/reference/cli.md is what the commands print; else run `npm run generate -- commands`', async () => {
  expect(await commandReference()).toBe(page)
})

test('docs/reference/cli.md has a section for every command, and no other', () => {
  const sections = [...page.matchAll(/^## (.+)$/gm)].map(([, name]) => name)
  expect(sections).toEqual(Object.keys(COMMANDS))
})
