/** The service of stock and shipping: it takes a piece off the shelf, and hands it to a carrier. */
import { BusinessError, type Handlers, type SagaKit } from '@fencepost/saga'
import { type MessagesOf, type Order, tell } from './messages.ts'
import { partOf, run, type Step, undo } from './parts.ts'

export const articles = ['anvil', 'bolt', 'crate', 'drill', 'easel'] as const

export const stockTables = `
  CREATE TABLE stock (
    id      text PRIMARY KEY,
    initial int  NOT NULL,
    pieces  int  NOT NULL CHECK (pieces >= 0)
  );
  CREATE TABLE reservations (order_id text PRIMARY KEY, article text NOT NULL, amount bigint NOT NULL);
  -- No primary key on the order: if a message took effect twice, it would show here.
  CREATE TABLE shipments (at bigserial, order_id text NOT NULL)`

export function stock(kit: SagaKit) {
  const reserve: Step = {
    name: 'reserve',
    compensate: {
      commit: async (tx, { sagaId }) => {
        const { rows } = await tx.query<{ article: string; amount: string }>(
          'DELETE FROM reservations WHERE order_id = $1 RETURNING article, amount',
          [sagaId],
        )
        const [row] = rows
        if (row === undefined) return
        await tx.query('UPDATE stock SET pieces = pieces + 1 WHERE id = $1', [row.article])
        await tell(kit, tx, 'StockReturned', {
          orderId: sagaId,
          article: row.article,
          amount: Number(row.amount),
        })
      },
    },
  }
  const ship: Step = { name: 'ship', pivot: true }

  const handlers: Handlers<MessagesOf<'stock'>> = {
    PaymentTaken: {
      outside: ({ payload: order }) =>
        run(kit, reserve, order, {
          // Checked before any write, because a refusal is an outcome and not an error of the transaction.
          effect: async () => {
            const { rows } = await kit.pool.query('SELECT pieces FROM stock WHERE id = $1', [order.article])
            if (rows[0].pieces === 0) throw new BusinessError('out_of_stock', `no ${order.article} left`)
          },
          commit: async (tx) => {
            const { orderId, article, amount } = order
            await tx.query('UPDATE stock SET pieces = pieces - 1 WHERE id = $1', [article])
            await tx.query('INSERT INTO reservations VALUES ($1, $2, $3)', [orderId, article, amount])
            await tell(kit, tx, 'PiecesReserved', order)
          },
          reject: (tx) => tell(kit, tx, 'StockReturned', order),
        }),
    },
    PiecesReserved: {
      outside: ({ payload: order }) =>
        run(kit, ship, order, {
          effect: async () => {
            if (order.amount % 25 === 0) throw new BusinessError('undeliverable', 'no carrier goes there')
          },
          commit: async (tx) => {
            await tx.query('INSERT INTO shipments (order_id) VALUES ($1)', [order.orderId])
            await tell(kit, tx, 'OrderShipped', order)
          },
          reject: (tx) => tell(kit, tx, 'ShippingRefused', order),
        }),
    },
    ShippingRefused: { outside: ({ payload }: { payload: Order }) => undo(kit, reserve, payload) },
  }
  return { part: partOf([reserve, ship]), handlers }
}
