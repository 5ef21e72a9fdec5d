/** The core against networks, nodes, clocks and processes that fail, in histories that replay from a seed. */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'

const run = promisify(execFile)

/** The seed of the first history, so that a day's runs are not all the same; printed, and it may be given. */
const from = Number(process.env.FENCEPOST_TEST_SEED ?? Math.floor(Math.random() * 100_000_000))

async function simulate(...args: string[]) {
  const { stdout } = await run(process.execPath, ['test/simulation/main.ts', ...args], {
    maxBuffer: 16 * 1024 * 1024,
  }).catch((cause: { stdout: string; stderr: string }) => {
    if (!cause.stdout) throw cause
    return cause
  })
  const lines = stdout.trimEnd().split('\n')
  return { stdout, lines, last: JSON.parse(lines.at(-1) ?? '') as Record<string, unknown> }
}

describe('the simulation', () => {
  test('20,000 histories break no promise, and everything that must be seen is seen', async () => {
    console.log(`the simulation begins with seed ${from} (FENCEPOST_TEST_SEED)`)
    const { last, stdout } = await simulate('--histories', '20000', '--from', String(from))
    expect(last, stdout).toMatchObject({ histories: 20_000, seed: null, broken: [], unseen: [] })
  }, 240_000)

  test('a seed gives the same history every time, step by step', async () => {
    const [once, again] = await Promise.all([simulate('--seed', '4711'), simulate('--seed', '4711')])
    expect(again.stdout).toBe(once.stdout)
    expect(once.lines.length).toBeGreaterThan(50)
  })
})
