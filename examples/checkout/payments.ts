/** The service of the payments: it charges the card at the provider, and refunds what came back. */
import { BusinessError, type Handlers, type SagaKit } from '@fencepost/saga'
import { type MessagesOf, type Order, tell } from './messages.ts'
import { partOf, run, type Step, undo } from './parts.ts'

export const paymentsTables = `
  CREATE TABLE payments (
    order_id   text    PRIMARY KEY,
    article    text    NOT NULL,
    charge_key text    NOT NULL,
    amount     bigint  NOT NULL,
    refunded   boolean NOT NULL DEFAULT false
  )`

/** `providerUrl`: the payment provider, which honours the key. */
export function payments(kit: SagaKit, providerUrl: string) {
  const charge: Step = {
    name: 'charge',
    compensate: {
      // Also where it is unknown whether the card was charged: the provider knows by the key.
      effect: async ({ stepKey, idempotencyKey, signal }) => {
        const { status } = await post(`${providerUrl}/refunds`, idempotencyKey, { orderId: stepKey }, signal)
        if (status !== 200) throw new Error(`the provider answered ${status} to a refund`)
      },
      commit: async (tx, { sagaId }) => {
        const { rows } = await tx.query<{ article: string; amount: string }>(
          'UPDATE payments SET refunded = true WHERE order_id = $1 RETURNING article, amount',
          [sagaId],
        )
        const { article = '', amount = 0 } = rows[0] ?? {}
        await tell(kit, tx, 'PaymentReturned', { orderId: sagaId, article, amount: Number(amount) })
      },
    },
  }
  const handlers: Handlers<MessagesOf<'payments'>> = {
    OrderAccepted: {
      outside: ({ payload: order }) =>
        run(kit, charge, order, {
          effect: async ({ idempotencyKey, signal }) => {
            const { orderId, amount } = order
            const { status, body } = await post(
              `${providerUrl}/charges`,
              idempotencyKey,
              { orderId, amount },
              signal,
            )
            if (status === 402) throw new BusinessError('declined', 'the card was declined')
            if (status !== 200) throw new Error(`the provider answered ${status}`)
            return body as { chargeId: string }
          },
          commit: async (tx, { chargeId }) => {
            const { orderId, article, amount } = order
            await tx.query('INSERT INTO payments VALUES ($1, $2, $3, $4)', [
              orderId,
              article,
              chargeId,
              amount,
            ])
            await tell(kit, tx, 'PaymentTaken', order)
          },
          reject: (tx) => tell(kit, tx, 'PaymentReturned', order),
        }),
    },
    StockReturned: { outside: ({ payload }: { payload: Order }) => undo(kit, charge, payload) },
  }
  return { part: partOf([charge]), handlers }
}

async function post(
  url: string,
  key: string,
  body: unknown,
  signal: AbortSignal,
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'idempotency-key': key },
    body: JSON.stringify(body),
    signal,
  })
  return { status: response.status, body: await response.json() }
}
