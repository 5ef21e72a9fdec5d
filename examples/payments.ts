/**
 * What the examples do under a reservation: one payment an order, in one statement.
 *
 * An earlier attempt may have written its row and died before it could say so (`attempt` above 1): then the row is there
 * already, and it is the answer.
 */

import type { Reservation } from '@fencepost/client'
import type pg from 'pg'

export type Payment = { readonly payment_id: string; readonly order_id: string; readonly amount: number }

export async function pay(
  pool: pg.Pool,
  held: Reservation,
  orderId: string,
  amount: number,
): Promise<Payment> {
  held.throwIfLost()
  await pool.query(
    `INSERT INTO payment (order_id, amount, fencing_token) VALUES ($1, $2, $3)
     ON CONFLICT (order_id) DO NOTHING`,
    [orderId, amount, held.fencingToken],
  )
  const { rows } = await pool.query('SELECT id, order_id, amount FROM payment WHERE order_id = $1', [orderId])
  return { payment_id: String(rows[0].id), order_id: rows[0].order_id, amount: rows[0].amount }
}
