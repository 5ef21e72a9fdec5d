/** Three workers want the same jobs, and one of them is killed in the middle of one: every step is done once. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { setStage } from '../support/stage.ts'

const schema = readFileSync(new URL('./jobs.sql', import.meta.url), 'utf8')
const JOBS = ['a', 'b', 'c', 'd']

test('every step of every job is done once, also past a worker that was killed', {
  timeout: 60_000,
}, async () => {
  await using stage = await setStage(schema)
  await stage.pool.query('INSERT INTO job (id) SELECT unnest($1::text[])', [JOBS])
  const victim = stage.start('long-job/worker.ts', ...JOBS)
  await victim.until('a step of its first job', async () => {
    const { rows } = await stage.pool.query('SELECT count(*)::int AS steps FROM job_step')
    return rows[0].steps >= 2
  })
  const others = [1, 2].map(() => stage.start('long-job/worker.ts', ...JOBS))
  await victim.end({ signal: 'SIGKILL' })
  // Its first, unless this process was held up before it could kill.
  const job = [...victim.output.matchAll(/^begin (\w)/gm)].at(-1)?.[1]
  for (const worker of others) expect(await worker.exited, worker.output).toEqual({ code: 0, signal: null })

  const { rows } = await stage.pool.query(
    'SELECT job_id, array_agg(step ORDER BY step) AS steps FROM job_step GROUP BY job_id ORDER BY job_id',
  )
  expect(rows).toEqual(JOBS.map((job_id) => ({ job_id, steps: [0, 1, 2, 3, 4, 5] })))
  const output = [victim, ...others].map((worker) => worker.output).join('')
  expect(output.match(/^done /gm)?.length).toBe(JOBS.length)
  // The job of the dead one went on where it had stopped, as a further attempt.
  const [, at] = new RegExp(`^begin ${job} attempt [2-9] at step (\\d)`, 'm').exec(output) ?? []
  if (job === 'a') expect(Number(at)).toBeGreaterThanOrEqual(2)
  else expect(at).toBeDefined()
})
