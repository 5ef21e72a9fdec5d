/**
 * The saga of an order: accept it, reserve a piece, charge the card, find a carrier, ship. Every step with what undoes
 * it.
 *
 * Read this file first: it is all that an application writes. That each step takes effect once, that the card is
 * charged under one key, that what was done is undone in reverse order, is the kit's part.
 */
import { BusinessError, defineSaga, publish, type SagaKit, type Tx } from '@fencepost/saga'

export type Order = { readonly article: string; readonly amount: number }

/** Short, so that this example recovers quickly; in production the longest that the provider may take. */
const leaseMs = 3_000

export function orderSaga(kit: SagaKit, providerUrl: string) {
  const tell = (tx: Tx, orderId: string, type: string, payload: unknown) =>
    publish(kit, tx, { aggregateType: 'order', aggregateId: orderId, type, payload, destination: 'ledger' })

  return defineSaga<Order>('order', [
    {
      name: 'accept',
      leaseMs,
      commit: (tx, _, { sagaId }) => setState(tx, sagaId, 'placed', 'accepted'),
      compensate: {
        commit: async (tx, { sagaId }) => {
          await setState(tx, sagaId, 'accepted', 'failed')
          await tell(tx, sagaId, 'OrderFailed', { orderId: sagaId })
        },
      },
    },
    {
      name: 'reserve',
      leaseMs,
      // Checked before any write, because a refusal is an outcome and not an error of the transaction.
      effect: async ({ input }) => {
        const { rows } = await kit.pool.query('SELECT pieces FROM stock WHERE id = $1', [input.article])
        if (rows[0].pieces === 0) throw new BusinessError('out_of_stock', `no ${input.article} left`)
      },
      commit: async (tx, _, { sagaId, input }) => {
        await tx.query('UPDATE stock SET pieces = pieces - 1 WHERE id = $1', [input.article])
        await tx.query('INSERT INTO reservations VALUES ($1, $2)', [sagaId, input.article])
      },
      compensate: {
        commit: async (tx, { sagaId, input }) => {
          const { rowCount } = await tx.query('DELETE FROM reservations WHERE order_id = $1', [sagaId])
          if (rowCount === 1)
            await tx.query('UPDATE stock SET pieces = pieces + 1 WHERE id = $1', [input.article])
        },
      },
    },
    {
      name: 'charge',
      leaseMs,
      effect: async ({ sagaId, input, idempotencyKey, signal }) => {
        const { status, body } = await post(
          `${providerUrl}/charges`,
          idempotencyKey,
          { orderId: sagaId, amount: input.amount },
          signal,
        )
        if (status === 402) throw new BusinessError('declined', 'the card was declined')
        if (status !== 200) throw new Error(`the provider answered ${status}`)
        return body as { chargeId: string }
      },
      commit: async (tx, { chargeId }: { chargeId: string }, { sagaId, input }) => {
        await tx.query('INSERT INTO payments VALUES ($1, $2, $3)', [sagaId, chargeId, input.amount])
        return { chargeId }
      },
      compensate: {
        effect: async ({ stepKey, idempotencyKey, signal }) => {
          const { status } = await post(
            `${providerUrl}/refunds`,
            idempotencyKey,
            { orderId: stepKey },
            signal,
          )
          if (status !== 200) throw new Error(`the provider answered ${status} to a refund`)
        },
        commit: async (tx, { sagaId }) => {
          await tx.query('DELETE FROM payments WHERE order_id = $1', [sagaId])
        },
      },
    },
    {
      // After the charge, so that a refusal here must refund it.
      name: 'carrier',
      leaseMs,
      effect: async ({ input }) => {
        if (input.amount % 25 === 0) throw new BusinessError('undeliverable', 'no carrier goes there')
      },
    },
    {
      name: 'ship',
      leaseMs,
      pivot: true,
      commit: async (tx, _, { sagaId, input }) => {
        await setState(tx, sagaId, 'accepted', 'completed')
        await tell(tx, sagaId, 'OrderCompleted', { orderId: sagaId, amount: input.amount })
      },
    },
  ])
}

/** From exactly this state: an UPDATE of no row is no success. */
async function setState(tx: Tx, orderId: string, from: string, to: string): Promise<void> {
  const { rowCount } = await tx.query('UPDATE orders SET state = $3 WHERE id = $1 AND state = $2', [
    orderId,
    from,
    to,
  ])
  if (rowCount !== 1) throw new Error(`order ${orderId} is not ${from}`)
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
