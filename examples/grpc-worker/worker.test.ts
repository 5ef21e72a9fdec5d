/** Twenty copies of each of five calls at once: five rows, and every copy is told the same payment. */
import { readFileSync } from 'node:fs'
import { credentials, makeClientConstructor, type ServiceError, status } from '@grpc/grpc-js'
import { expect, test } from 'vitest'
import { setStage } from '../support/stage.ts'
import { type ChargeReply, type ChargeRequest, PAYMENTS } from './service.ts'

const schema = readFileSync(new URL('../payments.sql', import.meta.url), 'utf8')

// Bug: it was UNAVAILABLE, which clients of gRPC send again by themselves.
test('a call that no retry can mend is not UNAVAILABLE', async () => {
  await using stage = await setStage(schema)
  const Payments = makeClientConstructor(PAYMENTS, 'Payments')
  const client = new Payments(
    await stage.serve('grpc-worker/worker.ts'),
    credentials.createInsecure(),
    RETRIES,
  )
  const refused = new Promise<ServiceError | null>((resolve) => {
    client.charge!({ order_id: 'x'.repeat(2_000), amount: 7 }, (error: ServiceError | null) => resolve(error))
  })
  expect((await refused)?.code).toBe(status.INTERNAL)
  client.close()
})

/** As clients of it do: a machine without time for so many calls at once answers so, and they are sent again. */
const RETRIES = {
  'grpc.service_config': JSON.stringify({
    methodConfig: [
      {
        name: [{}],
        retryPolicy: {
          maxAttempts: 5,
          initialBackoff: '1s',
          maxBackoff: '5s',
          backoffMultiplier: 2,
          retryableStatusCodes: ['UNAVAILABLE', 'ABORTED'],
        },
      },
    ],
  }),
}

test('each order is charged once', async () => {
  await using stage = await setStage(schema)
  // Two workers, as behind a load balancer.
  const addresses = [await stage.serve('grpc-worker/worker.ts'), await stage.serve('grpc-worker/worker.ts')]
  const Payments = makeClientConstructor(PAYMENTS, 'Payments')
  const clients = addresses.map((address) => new Payments(address, credentials.createInsecure(), RETRIES))
  const charge = (index: number) =>
    new Promise<ChargeReply>((resolve, reject) => {
      const request: ChargeRequest = { order_id: `order-${index % 5}`, amount: 7 }
      clients[index % 2]!.charge!(request, (error: ServiceError | null, reply: ChargeReply) =>
        error === null ? resolve(reply) : reject(error),
      )
    })
  const replies = await Promise.all(Array.from({ length: 100 }, (_, index) => charge(index)))
  for (const client of clients) client.close()
  // One that was told so because its completion was late gets its own payment as a copy.
  expect(replies.filter(({ duplicate }) => !duplicate).length).toBeLessThanOrEqual(5)
  expect(new Set(replies.map(({ payment_id }) => payment_id)).size).toBe(5)
  const { rows } = await stage.pool.query('SELECT count(*)::int AS rows FROM payment')
  expect(rows).toEqual([{ rows: 5 }])
})
