/** The service of the orders: it accepts one, and learns how it ended. */
import type { Handlers, SagaKit, Tx } from '@fencepost/saga'
import { type MessagesOf, type Order, tell } from './messages.ts'
import { partOf, run, type Step, undo } from './parts.ts'

export const ordersTables = `
  CREATE TABLE orders (
    id      text   PRIMARY KEY,
    article text   NOT NULL,
    amount  bigint NOT NULL,
    state   text   NOT NULL CHECK (state IN ('placed', 'accepted', 'completed', 'failed'))
  )`

const accept: Step = {
  name: 'accept',
  compensate: { commit: (tx, { sagaId }) => setState(tx, sagaId, 'accepted', 'failed') },
}
/** The goods are on their way: from here on nothing is undone. */
const complete: Step = { name: 'complete', pivot: true }

export const ordersPart = () => partOf([accept, complete])

export function ordersHandlers(kit: SagaKit): Handlers<MessagesOf<'orders'>> {
  const fail = ({ payload }: { payload: Order }) => undo(kit, accept, payload)
  return {
    OrderPlaced: {
      outside: ({ payload: order }) =>
        run(kit, accept, order, {
          effect: async () => null,
          commit: async (tx) => {
            await setState(tx, order.orderId, 'placed', 'accepted')
            await tell(kit, tx, 'OrderAccepted', order)
          },
        }),
    },
    OrderShipped: {
      outside: ({ payload: order }) =>
        run(kit, complete, order, {
          effect: async () => null,
          commit: (tx) => setState(tx, order.orderId, 'accepted', 'completed'),
        }),
    },
    PaymentReturned: { outside: fail },
  }
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
