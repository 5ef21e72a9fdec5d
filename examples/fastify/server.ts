/**
 * A Fastify application that takes each payment once: `POST /orders/:id/payment {"amount": 42}`.
 *
 * The same as the one with Express, with the refusals in an error handler of the application.
 */

import { ConflictError, createClient, DuplicateError, FencepostError } from '@fencepost/client'
import Fastify from 'fastify'
import pg from 'pg'
import { pay } from '../payments.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? '' })
// An idle connection that breaks (a restart of the database) would end the process: the pool makes another when it needs one.
pool.on('error', (error) => console.error(error.message))
const fencepost = createClient({ url: process.env.FENCEPOST_URL ?? 'http://127.0.0.1:8081' })
const app = Fastify({ logger: false })

type Pay = { Params: { id: string }; Body: { amount: number } }

app.post<Pay>('/orders/:id/payment', async (request, reply) => {
  const { id } = request.params
  // Released by `await using` if the payment throws: before the INSERT there is no effect, and after it there is the row.
  await using held = await fencepost.reserve(`payment:${id}`, { waitMs: 5_000 })
  const payment = await pay(pool, held, id, request.body.amount)
  await held.complete(payment)
  return reply.code(201).send(payment)
})

app.setErrorHandler((error, _request, reply) => {
  if (error instanceof DuplicateError) return reply.code(200).send(error.result)
  if (error instanceof ConflictError) return reply.code(409).header('Retry-After', '1').send()
  if (error instanceof FencepostError) return reply.code(503).header('Retry-After', '1').send()
  throw error
})

console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 3000) })}`)
