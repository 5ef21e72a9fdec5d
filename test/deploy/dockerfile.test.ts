/** The Dockerfile as hadolint reads it. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { FETCH_MS_MAX, fetchProgram } from '../support/fetched-programs.ts'

const dockerfile = join(import.meta.dirname, '../../Dockerfile')

test('hadolint finds no fault in the Dockerfile', { timeout: FETCH_MS_MAX }, async () => {
  const hadolint = await fetchProgram('hadolint')
  const { status, stdout } = spawnSync(hadolint, [dockerfile], { encoding: 'utf8' })
  expect({ status, stdout }).toEqual({ status: 0, stdout: '' })
})

test.each(['docs/operations/nodes.md', 'docs/operations/runbooks.md'])(
  '%s names the command that the image has',
  (page) => {
    const text = (path: string) => readFileSync(join(import.meta.dirname, '../..', path), 'utf8')
    const entry = JSON.parse(/^ENTRYPOINT (\[.*\])$/m.exec(text('Dockerfile'))?.[1] ?? '[]') as string[]
    const told = [...text(page).matchAll(/kubectl exec POD --container fencepost -- (\S+ \S+)/g)]
    expect(told.map(([, command]) => command)).toEqual([entry.join(' ')])
  },
)
