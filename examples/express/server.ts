/**
 * An Express application that takes each payment once: `POST /orders/:id/payment {"amount": 42}`.
 *
 * In an application of your own: `npm install @fencepost/client`, and the same imports.
 */
import type { AddressInfo } from 'node:net'
import { createClient } from '@fencepost/client'
import { fencepostErrors } from '@fencepost/client/express'
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
  // A copy that comes meanwhile waits for the first, up to five seconds.
  const { replayed, result } = await fencepost.once(`payment:${id}`, (held) => pay(pool, held, id, amount), {
    waitMs: 5_000,
  })
  response.status(replayed ? 200 : 201).json(result)
})

// 409 and 503 with Retry-After, 422: what `once` throws.
app.use(fencepostErrors())

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
