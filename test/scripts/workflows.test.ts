/** The workflows of .github/: by actionlint, and what they may not do. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { FETCH_MS_MAX, fetchProgram } from '../support/fetched-programs.ts'
import { TestProcess } from '../support/processes.ts'

const root = join(import.meta.dirname, '../..')
const workflows = globSync('.github/workflows/*.yml', { cwd: root }).sort()
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')

test('actionlint finds nothing', { timeout: FETCH_MS_MAX }, async () => {
  expect(workflows).toContain('.github/workflows/release.yml')
  await using lint = new TestProcess(await fetchProgram('actionlint'), workflows, { cwd: root })
  expect(await lint.exited, lint.output).toEqual({ code: 0, signal: null })
})

test('an action of somebody else is one commit, and not what a tag leads to tomorrow', () => {
  const used = workflows.flatMap((file) => [...textOf(file).matchAll(/uses: (\S+)(.*)$/gm)])
  expect(used.length).toBeGreaterThan(10)
  const loose = used.filter(
    ([, action = '', comment = '']) =>
      !action.startsWith('./') && !(/@[0-9a-f]{40}$/.test(action) && /^ # v\d+\.\d+\.\d+$/.test(comment)),
  )
  expect(loose.map(([line]) => line)).toEqual([])
})

test('every command of the repository that a workflow runs exists', () => {
  const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> }
  const run = workflows.flatMap((file) => [...textOf(file).matchAll(/npm run (?:--silent )?(\S+)/g)])
  expect(run.length).toBeGreaterThan(3)
  expect(run.map(([, name = '']) => name).filter((name) => !(name in scripts))).toEqual([])
})

test('nothing is published before the tag was compared and everything was built and tried', () => {
  const release = textOf('.github/workflows/release.yml')
  expect(release).toMatch(/^ {2}artifacts:\n {4}needs: tag$/m)
  for (const job of ['npm', 'image'])
    expect(release).toMatch(new RegExp(`^  ${job}:\\n    needs: artifacts$`, 'm'))
})

test('the page of a release is made after what was published has been verified as its users do', () => {
  const release = textOf('.github/workflows/release.yml')
  expect(release).toMatch(/^ {2}published:\n {4}needs: \[npm, image, charts\]$/m)
  expect(release).toMatch(/^ {2}page:\n {4}needs: published$/m)
})

test('what is signed is named by its digest, because a tag may lead elsewhere tomorrow', () => {
  const signed = [...textOf('.github/workflows/release.yml').matchAll(/cosign (?:sign|attest) (.*)$/gm)].map(
    ([, of = '']) => of.split(' ').at(-1),
  )
  expect(signed.length).toBe(3)
  expect(signed.filter((name) => !name?.includes('@$'))).toEqual([])
})

test('an image has its provenance and its bill of materials where it is rehearsed and where it is published', () => {
  expect(textOf('.github/workflows/release.yml')).toMatch(/^ +provenance: mode=max\n +sbom: true$/m)
  expect(textOf('.github/workflows/artifacts.yml')).toContain('--provenance mode=max --sbom=true')
})
