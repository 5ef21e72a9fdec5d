/** The core against networks, nodes, clocks and processes that fail, in histories that replay from a seed. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { simulate } from './simulate.ts'

/** The same histories at each change, so a failure is due to the change; `npm run simulate -- --from` runs others. */
const from = Number(process.env.FENCEPOST_TEST_SEED ?? 1)

describe('the simulation', () => {
  test('500 histories break no promise', async () => {
    console.log(`the simulation begins with seed ${from} (FENCEPOST_TEST_SEED)`)
    const { last, stdout } = await simulate('--histories', '500', '--from', String(from))
    expect(last, stdout).toMatchObject({ histories: 500, seed: null, broken: [] })
  }, 600_000)

  test('a seed gives the same history every time, step by step', async () => {
    const [once, again] = await Promise.all([simulate('--seed', '4711'), simulate('--seed', '4711')])
    expect(again.stdout).toBe(once.stdout)
    expect(once.stdout.split('\n').length).toBeGreaterThan(50)
  })

  test('the report is the same whatever the number of workers, broken promises included', async () => {
    const broken = ['--mutant', 'complete-without-fence']
    const several = ['--mutant', 'claim-over-live-lease', '--failures', '2', '--histories', '100']
    for (const asked of [['--histories', '30'], broken, several]) {
      const [one, three] = await Promise.all([
        simulate(...asked, '--workers', '1'),
        simulate(...asked, '--workers', '3'),
      ])
      const saidOf = ({ stdout }: { stdout: string }) => stdout.replace(/"tookMs":\d+/, '')
      expect(saidOf(three)).toBe(saidOf(one))
    }
  })

  test('asked for several failures, a campaign goes on and names each of their seeds', async () => {
    const broken = ['--mutant', 'claim-over-live-lease', '--histories', '500']
    const [one, three] = await Promise.all([simulate(...broken), simulate(...broken, '--failures', '3')])
    const seeds = three.last.seeds as readonly number[]
    expect(one.last.seeds).toEqual([one.last.seed])
    expect(seeds.length).toBeGreaterThanOrEqual(3)
    expect(seeds[0]).toBe(one.last.seed)
    for (const seed of seeds) expect(three.stdout).toMatch(new RegExp(`^seed ${seed}: npm run simulate`, 'm'))
  })

  test('a failing history is made smaller, and the smaller plan fails again when it is replayed', async () => {
    const broken = ['--mutant', 'claim-over-live-lease']
    const { stdout, last } = await simulate(...broken)
    const plan = stdout.slice(stdout.indexOf('\n{\n'), stdout.lastIndexOf('\n}\n') + 2)
    const { operations } = JSON.parse(plan) as { operations: readonly unknown[] }
    expect(operations.length).toBeLessThanOrEqual(3)

    const folder = await mkdtemp(join(tmpdir(), 'fencepost-simulation-'))
    try {
      const file = join(folder, 'plan.json')
      await writeFile(file, plan)
      const again = await simulate(...broken, '--plan', file)
      expect(again.last).toMatchObject({ seed: last.seed })
      expect(again.last.broken).not.toEqual([])
      expect((await simulate('--plan', file)).last).toMatchObject({ broken: [] })
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})
