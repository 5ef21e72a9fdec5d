/**
 * An Express application that takes each payment once: `POST /orders/:id/payment {"amount": 42}`.
 *
 * In an application of your own: `import { createClient, … } from '@fencepost/client'`.
 */
import type { AddressInfo } from 'node:net'
import { ConflictError, createClient, DuplicateError, QuorumUnavailableError } from '@fencepost/client'
import express from 'express'
import pg from 'pg'
import { pay } from '../payments.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? '' })
// An idle connection that breaks (a restart of the database) would end the process: the pool makes another when it needs one.
pool.on('error', (error) => console.error(error.message))
const fencepost = createClient({ url: process.env.FENCEPOST_URL ?? 'http://127.0.0.1:8081' })
const app = express()
app.use(express.json())

app.post('/orders/:id/payment', async (request, response) => {
  const { id } = request.params
  const { amount } = request.body as { amount: number }
  try {
    // A copy that comes meanwhile waits for the first, up to five seconds.
    const payment = await fencepost.withReservation(`payment:${id}`, (held) => pay(pool, held, id, amount), {
      waitMs: 5_000,
      onError: 'hold',
    })
    response.status(201).json(payment)
  } catch (error) {
    if (error instanceof DuplicateError) response.status(200).json(error.result)
    else if (error instanceof ConflictError) response.status(409).set('Retry-After', '1').end()
    else if (error instanceof QuorumUnavailableError) response.status(503).set('Retry-After', '1').end()
    else throw error
  }
})

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
