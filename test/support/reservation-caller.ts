/**
 * A process that calls the reservation API, for tests that need several of them, or one that can be stopped.
 *
 *   storm URL VALUE COUNT              asks COUNT times at once; prints how often each status came
 *   acquire URL FOLDER VALUES COUNT    acquires and releases COUNT times, one of VALUES each; appends every token
 *   fenced URL VALUE DATABASE          reserves, prints its token, and works when the file DATABASE.go says so
 */
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { createClient, FencepostError } from '@fencepost/client'
import pg from 'pg'
import { postedJson } from './post.ts'

const [mode = '', url = '', ...rest] = process.argv.slice(2)

const say = (of: unknown) => process.stdout.write(`${JSON.stringify(of)}\n`)

switch (mode) {
  case 'storm':
    await storm(rest[0] ?? '', Number(rest[1]))
    break
  case 'acquire':
    await acquire(rest[0] ?? '', (rest[1] ?? '').split(','), Number(rest[2]))
    break
  case 'fenced':
    await fenced(rest[0] ?? '', rest[1] ?? '')
    break
  default:
    throw new Error(`unknown mode ${mode}`)
}

async function storm(value: string, count: number): Promise<void> {
  const answers = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const response = await postedJson(`${url}/v1/reservations`, {
        session_id: `${process.pid}-${index}`,
        reserved_value: value,
      })
      const body = (await response.json()) as Record<string, unknown>
      return {
        status: response.status,
        says: String(body.status === response.status ? body.reservation_status : body.status),
        body,
      }
    }),
  )
  const counts: Record<string, number> = {}
  for (const { status, says } of answers) counts[`${status} ${says}`] = (counts[`${status} ${says}`] ?? 0) + 1
  const winner = answers.find(({ status }) => status === 201)?.body
  const results = [...new Set(answers.map(({ body }) => JSON.stringify(body.result ?? null)))]
  say({ counts, winner, results })
}

/** Holders append tokens while they hold, so the file is in the order of the holders. */
async function acquire(folder: string, values: readonly string[], count: number): Promise<void> {
  const client = createClient({ url, retryForMs: 20_000 })
  let lost = 0
  for (let index = 0; index < count; index += 1) {
    const value = values[(index + process.pid) % values.length]!
    try {
      await using held = await client.reserve(value, { waitMs: 9_000, heartbeat: false })
      held.throwIfLost()
      appendFileSync(join(folder, value), `${held.fencingToken}\n`)
    } catch (error) {
      // Another session held it for the whole wait, or the nodes were away: one acquisition fewer.
      if (!(error instanceof FencepostError)) throw error
      lost += 1
      index -= lost < count ? 1 : 0
    }
  }
  say({ done: count, lost })
}

async function fenced(value: string, database: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: database, max: 1 })
  await pool.query('SELECT 1')
  // Listened for before the token is printed: the test stops this process as soon as it sees it, and then sends the
  // signal.
  const toldToGoOn = new Promise((resolve) => process.once('SIGUSR2', resolve))
  const held = await createClient({ url }).reserve(value, { leaseMs: 1_000 })
  say({ token: held.fencingToken, attempt: held.attempt })
  // The test stops it here. It works on without a look at its `lost` signal: the token protects the others.
  await toldToGoOn
  const { rowCount } = await pool.query(
    'UPDATE account SET balance = balance - 1, last_fencing_token = $1 WHERE id = 1 AND last_fencing_token <= $1',
    [held.fencingToken],
  )
  const completed = await held.complete('late').then(
    () => 'completed',
    (error: FencepostError) => `${error.status} ${error.name} ${error.code}`,
  )
  say({ rowCount, completed, aborted: held.signal.aborted })
  await pool.end()
}
