/**
 * A Fastify application that takes each payment once: `POST /orders/:id/payment {"amount": 42}`.
 *
 * The same as the one with Express, with `reserve` and `complete`: a duplicate is thrown, and answered with the payment of the first.
 */

import { createClient } from '@fencepost/client'
import { fencepostErrors } from '@fencepost/client/fastify'
import Fastify from 'fastify'
import pg from 'pg'
import { pay } from '../payments.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? '' })
// An idle connection that breaks (a restart of the database) would end the process: the pool makes another when it needs one.
pool.on('error', (error) => console.error(error.message))
const fencepost = createClient({ url: process.env.FENCEPOST_URL ?? 'http://127.0.0.1:8081' })
const app = Fastify({ logger: false })
// A duplicate gets the recorded payment and 200, a conflict 409, and what cannot be known now 503.
await app.register(fencepostErrors)

type Pay = { Params: { id: string }; Body: { amount: number } }

app.post<Pay>('/orders/:id/payment', async (request, reply) => {
  const { id } = request.params
  // Released by `await using` if the payment throws: before the INSERT there is no effect, and after it there is the row.
  await using held = await fencepost.reserve(`payment:${id}`, { waitMs: 5_000 })
  const payment = await pay(pool, held, id, request.body.amount)
  await held.complete(payment)
  return reply.code(201).send(payment)
})

console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 3000) })}`)
