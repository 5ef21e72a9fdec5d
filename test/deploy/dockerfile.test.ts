/** The Dockerfile as hadolint reads it. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { FETCH_MS_MAX, fetchProgram } from '../support/fetched-programs.ts'

const dockerfile = join(import.meta.dirname, '../../Dockerfile')

test('hadolint finds no fault in the Dockerfile', { timeout: FETCH_MS_MAX }, async () => {
  const hadolint = await fetchProgram('hadolint')
  const { status, stdout } = spawnSync(hadolint, [dockerfile], { encoding: 'utf8' })
  expect({ status, stdout }).toEqual({ status: 0, stdout: '' })
})
