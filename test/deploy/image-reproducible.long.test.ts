/** Two folders, filled one after the other and under two umasks, are the same: what the image adds to its base is one layer. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { contentOf } from '../support/folder-content.ts'
import { TestProcess } from '../support/processes.ts'

const folder = mkdtempSync(join(tmpdir(), 'fencepost-image-twice-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** In a process of its own, which has a umask of its own. */
async function filled(name: string, umask: string): Promise<readonly string[]> {
  const place = join(folder, name)
  const command = ['-c', 'umask "$0"; exec "$@"', umask, process.execPath, 'scripts/image-files.ts', place]
  await using child = new TestProcess('sh', command, { env: { SOURCE_DATE_EPOCH: '1750000000' } })
  expect(await child.exited, child.output).toEqual({ code: 0, signal: null })
  return contentOf(place)
}

test('two folders are the same', { timeout: 480_000 }, async () => {
  const content = await filled('one', '022')
  expect(await filled('other/and/deeper', '077')).toEqual(content)
  expect(content.length).toBeGreaterThan(20)
})
