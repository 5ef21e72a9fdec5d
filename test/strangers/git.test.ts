/** Git itself, with its own server: directly and through the sidecar with the built-in policy it sees the same history. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startGitServer } from '../support/git-server.ts'
import { startProxy } from '../support/proxy.ts'
import { BUILTIN_ROUTES } from './both-ways.ts'

// Bug: a fetch is a POST, and was answered with the refs of minutes before: "Already up to date", and a fresh clone was two commits old.
test.each(['directly', 'through the sidecar'])(
  'git clones, pulls after a push, and pushes 2 MB %s',
  async (way) => {
    await using server = await startGitServer()
    const { git, folder } = server
    await using proxy =
      way === 'directly' ? undefined : await startProxy(server.origin, { routes: BUILTIN_ROUTES })
    const url = `${proxy?.origin ?? server.origin}/shop.git`
    const headOf = (clone: string) => git(['rev-parse', 'HEAD'], join(folder, clone))
    const push = async (clone: string, bytes: number) => {
      const at = join(folder, clone)
      await writeFile(join(at, 'file.bin'), randomBytes(bytes))
      await git(['add', '.'], at)
      await git(['commit', '--quiet', '--message', `${bytes} bytes`], at)
      await git(['push', '--quiet', 'origin', 'HEAD:main'], at)
      return headOf(clone)
    }

    await git(['clone', '--quiet', url, 'one'])
    const first = await push('one', 2_000_000)
    await git(['clone', '--quiet', url, 'two'])
    expect(await headOf('two')).toBe(first)
    for (const bytes of [100, 2_000_000, 200]) {
      const pushed = await push('one', bytes)
      await git(['pull', '--quiet'], join(folder, 'two'))
      expect(await headOf('two'), `after a push of ${bytes} bytes`).toBe(pushed)
      await git(['clone', '--quiet', url, `after-${pushed}`])
      expect(await headOf(`after-${pushed}`)).toBe(pushed)
    }
    expect(await git(['--git-dir=shop.git', 'rev-parse', 'main'])).toBe(await headOf('two'))
  },
)
