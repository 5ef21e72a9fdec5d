/** buildah without a daemon and without a registry: images in a folder of the test, which is gone with it. */
import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { requireProgram } from './programs.ts'

const run = promisify(execFile)

export type Buildah = AsyncDisposable & {
  /** @returns what it wrote to stdout */
  command(...args: readonly string[]): Promise<string>
}

/**
 * With overlay mounts where the machine allows them; else by copying (vfs), which takes ten times as long and as much room.
 *
 * @param folder for images and everything else that it keeps; removed at the end
 */
export async function openBuildah(folder: string): Promise<Buildah> {
  const overlay = buildahWith('overlay', folder)
  try {
    await overlay.command('mount', await overlay.command('from', 'scratch'))
    return overlay
  } catch {
    await overlay.command('rm', '--all').catch(() => '')
    return buildahWith('vfs', folder)
  }
}

function buildahWith(driver: 'overlay' | 'vfs', folder: string): Buildah {
  const program = requireProgram('buildah')
  const roots = ['--root', join(folder, `images-${driver}`), '--runroot', join(folder, 'run')]
  const command = async (...args: readonly string[]): Promise<string> => {
    const { stdout } = await run(program, ['--storage-driver', driver, ...roots, ...args], {
      maxBuffer: 64 * 1024 * 1024,
      env: { ...process.env, BUILDAH_ISOLATION: 'chroot' },
    })
    return stdout.trim()
  }
  return {
    command,
    [Symbol.asyncDispose]: async () => {
      await command('umount', '--all').catch(() => '')
      await rm(folder, { recursive: true, force: true })
    },
  }
}
