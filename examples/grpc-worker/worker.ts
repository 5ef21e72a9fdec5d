/**
 * A gRPC worker that charges each order once: reserve the intent, write one row under the fencing token, complete.
 *
 * gRPC clients retry on UNAVAILABLE by themselves; a retry of a call whose answer was lost gets the answer of the first.
 */

import {
  ConflictError,
  createClient,
  DuplicateError,
  FencepostError,
  MismatchError,
  RefusedError,
  UndecidedError,
} from '@fencepost/client'
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js'
import pg from 'pg'
import { type Payment, pay } from '../payments.ts'
import { type ChargeReply, type ChargeRequest, PAYMENTS } from './service.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? '' })
// An idle connection that breaks (a restart of the database) would end the process: the pool makes another when it needs one.
pool.on('error', (error) => console.error(error.message))
const fencepost = createClient({ url: process.env.FENCEPOST_URL ?? 'http://127.0.0.1:8081' })

async function charge({ order_id, amount }: ChargeRequest): Promise<ChargeReply> {
  try {
    const { payment_id } = await fencepost.withReservation(
      `payment:${order_id}`,
      (held) => pay(pool, held, order_id, amount),
      { waitMs: 5_000 },
    )
    return { payment_id, duplicate: false }
  } catch (error) {
    if (error instanceof DuplicateError)
      return { payment_id: (error.result as Payment).payment_id, duplicate: true }
    throw error
  }
}

const server = new Server()
server.addService(PAYMENTS, {
  charge: (call: ServerUnaryCall<ChargeRequest, ChargeReply>, done: sendUnaryData<ChargeReply>) => {
    charge(call.request).then(
      (reply) => done(null, reply),
      (error: Error) => done({ code: codeOf(error), details: error.message }),
    )
  },
})

/** Clients send again what is UNAVAILABLE: that is right where a retry learns what stands, and nowhere else. */
function codeOf(error: Error): status {
  if (!(error instanceof FencepostError)) return status.INTERNAL
  if (error instanceof ConflictError) return status.ABORTED
  if (error instanceof MismatchError || error instanceof UndecidedError) return status.FAILED_PRECONDITION
  // The call to fencepost is wrong: its form, its size, its token.
  if (error instanceof RefusedError && error.problem.retryable !== true) return status.INTERNAL
  return status.UNAVAILABLE
}

server.bindAsync(
  `127.0.0.1:${process.env.PORT ?? 50051}`,
  ServerCredentials.createInsecure(),
  (error, port) => {
    if (error !== null) throw error
    console.log(`listening on 127.0.0.1:${port}`)
  },
)
