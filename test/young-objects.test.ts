/** What a request made goes with the young objects once it is over, and does not wait for a full collection (docs/internals/performance.md). */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const PROGRAM = join(import.meta.dirname, 'support/what-stays.ts')

async function shareThatStays(name: string): Promise<number> {
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, name])
  return Number(stdout)
}

test.each(['ShortLivedMap', 'exchange', 'callBatch'])(
  'of what went through %s nothing stays',
  async (name) => {
    expect(await shareThatStays(name)).toBeLessThan(0.1)
  },
)
