/**
 * A worker for jobs that take longer than any lease: `worker.ts JOB…`. Start as many as you like; kill any of them.
 *
 * The heartbeat of the client holds a job while its worker lives. When a worker dies its lease ends, and another one
 * takes over where the rows say that it stopped. Each step is written only where no larger token has written before.
 */
import { setTimeout } from 'node:timers/promises'
import {
  ConflictError,
  createClient,
  DuplicateError,
  LeaseLostError,
  type Reservation,
} from '@fencepost/client'
import pg from 'pg'

const STEPS = 6
const STEP_MS = 250

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? '', max: 2 })
// An idle connection that breaks (a restart of the database) would end the process: the pool makes another when it needs one.
pool.on('error', (error) => console.error(error.message))
const fencepost = createClient({ url: process.env.FENCEPOST_URL ?? 'http://127.0.0.1:8081' })

const open = process.argv.slice(2)
while (open.length > 0) {
  const job = open.shift()!
  try {
    await fencepost.withReservation(`job:${job}`, (held) => run(job, held), {
      leaseMs: 1_000,
    })
    console.log(`done ${job}`)
  } catch (error) {
    if (error instanceof DuplicateError) continue
    // Another worker has it, or took it over: look later whether it is finished.
    if (!(error instanceof ConflictError || error instanceof LeaseLostError)) throw error
    open.push(job)
    await setTimeout(100)
  }
}
await pool.end()

async function run(job: string, held: Reservation): Promise<{ steps: number }> {
  const { rows } = await pool.query('SELECT count(*)::int AS done FROM job_step WHERE job_id = $1', [job])
  console.log(`begin ${job} attempt ${held.attempt} at step ${rows[0].done}`)
  for (let step = rows[0].done; step < STEPS; step += 1) {
    // Aborts when the lease is lost, with an error that says so.
    await setTimeout(STEP_MS, undefined, { signal: held.signal }).catch(() => held.throwIfLost())
    await writeStep(job, step, held.fencingToken)
  }
  return { steps: STEPS }
}

/** Row and token in one transaction: once a later holder has written, our write is rolled back. */
async function writeStep(job: string, step: number, token: number): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const { rowCount } = await client.query(
      'UPDATE job SET last_fencing_token = $2 WHERE id = $1 AND last_fencing_token <= $2',
      [job, token],
    )
    if (rowCount === 0) throw new LeaseLostError(`job ${job} was taken over`, 0, {})
    await client.query('INSERT INTO job_step VALUES ($1, $2, $3)', [job, step, token])
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}
