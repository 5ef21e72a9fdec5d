/** One version in every place, and its section of the changelog. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { currentVersion, dated, sectionOf, versionsFound } from '../../scripts/version.ts'

const changelog = '# Changelog\n\n## 0.2.0 (unreleased)\n\n- new\n\n## 0.1.0 (2026-12-01)\n\n- first\n'

test('every place has the version of package.json', () => {
  const others = versionsFound().filter(({ version }) => version !== currentVersion())
  expect(others).toEqual([])
})

test('the changelog has a section of the version', () => {
  const text = readFileSync(join(import.meta.dirname, '../../CHANGELOG.md'), 'utf8')
  expect(sectionOf(text, currentVersion())?.text).toContain('### ')
})

test('a section ends where the next begins, and says whether it is dated', () => {
  expect(sectionOf(changelog, '0.2.0')).toEqual({ dated: false, text: '- new' })
  expect(sectionOf(changelog, '0.1.0')).toEqual({ dated: true, text: '- first' })
  expect(sectionOf(changelog, '0.3.0')).toBeUndefined()
})

test('the section of a release gets its day, and others stay', () => {
  expect(dated(changelog, '0.2.0', '2027-01-31')).toBe(changelog.replace('unreleased', '2027-01-31'))
  expect(() => dated(changelog, '0.3.0', '2027-01-31')).toThrow('says nothing about 0.3.0')
  expect(() => dated('## 0.3.0 (unreleased)\n', '0.3.0', '2027-01-31')).toThrow('says nothing about 0.3.0')
})
