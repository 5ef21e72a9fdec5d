/**
 * A slice of `versions.long.test.ts`, without an earlier build: which version it takes, and that the tables hold between two sidecars of
 * this tree. What fails here is a fault of this tree or of a table, and says nothing of versions.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@fencepost/client'
import { describe, expect, onTestFinished, test } from 'vitest'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { clientsAt } from './compare.ts'
import { cross } from './cross.ts'
import { CROSSINGS } from './crossings.ts'
import { BEFORE_0_1_0, earlierVersion } from './earlier-version.ts'

describe('the earlier version', () => {
  function repository() {
    const folder = mkdtempSync(join(tmpdir(), 'fencepost-history-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const who = ['-c', 'user.name=t', '-c', 'user.email=t@example.org', '-c', 'tag.gpgSign=false']
    const git = (...args: readonly string[]) =>
      execFileSync('git', [...who, ...args], { cwd: folder, encoding: 'utf8', stdio: 'pipe' }).trim()
    git('init', '--quiet')
    let commits = 0
    const commit = (...tags: readonly string[]) => {
      commits += 1
      git('-c', 'commit.gpgSign=false', 'commit', '--quiet', '--allow-empty', '--message', `${commits}`)
      for (const tag of tags) git('tag', tag)
      return git('rev-parse', 'HEAD')
    }
    return { folder, git, commit }
  }

  test('is the named commit where nothing was released', () => {
    const { folder, commit } = repository()
    commit('some-tag')
    expect(earlierVersion(folder)).toEqual({ name: '398e782', commit: BEFORE_0_1_0 })
  })

  test('is the newest release among the ancestors, by its number', () => {
    const { folder, git, commit } = repository()
    commit('v0.9.0')
    const newest = commit('v0.10.0')
    git('checkout', '--quiet', '-b', 'elsewhere')
    commit('v0.11.0')
    git('checkout', '--quiet', '-')
    commit('v0.12.0-rc.1', 'version-7')
    commit()
    expect(earlierVersion(folder)).toEqual({ name: 'v0.10.0', commit: newest })
  })

  test('is not the release that is made just now', () => {
    const { folder, commit } = repository()
    const before = commit('v1.0.0')
    commit('v1.1.0')
    expect(earlierVersion(folder)).toEqual({ name: 'v1.0.0', commit: before })
  })
})

/** These wait for leases to end, some of them for several. */
const LONG = /longer than it lasts|dies at work/

test('between two sidecars of one version every crossing goes as the table says', async () => {
  await using servers = await startRedisServers(5, { founded: true })
  const of = (name: string) => ({ name, main: MAIN_PROGRAM })
  const short = Object.keys(CROSSINGS).filter((name) => !LONG.test(name))
  const crossed = await cross([of('one'), of('another')], servers.urls, short)
  expect(crossed.filter(({ failure }) => failure !== undefined)).toEqual([])
  expect(crossed).toHaveLength(2 * short.length)
  const called = await clientsAt('a client', of('one'), { createClient })
  expect(called.filter(({ failure }) => failure !== undefined)).toEqual([])
}, 300_000)
