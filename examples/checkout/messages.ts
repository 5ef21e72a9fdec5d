/**
 * What the three services tell each other, and to whom. Each service has its own database; this is all that they share.
 *
 *     orders             payments            stock
 *     OrderPlaced ↺
 *     OrderAccepted   →
 *                        PaymentTaken    →
 *                                            PiecesReserved ↺
 *                     ←─────────────────     OrderShipped         completed
 *
 *                                            ShippingRefused ↺    and backwards, from wherever it was refused
 *                        ←──────────────     StockReturned
 *     ←──────────────    PaymentReturned                          failed
 */
import { type OutboxEvent, publish, type SagaKit, type Tx } from '@fencepost/saga'

export type Service = 'orders' | 'payments' | 'stock'
export const services: readonly Service[] = ['orders', 'payments', 'stock']

export type Order = { readonly orderId: string; readonly article: string; readonly amount: number }

/** Who handles each type of message; the service's queue has its name. */
const handledBy = {
  OrderPlaced: 'orders',
  OrderAccepted: 'payments',
  PaymentTaken: 'stock',
  PiecesReserved: 'stock',
  OrderShipped: 'orders',
  ShippingRefused: 'stock',
  StockReturned: 'payments',
  PaymentReturned: 'orders',
} as const satisfies Record<string, Service>

type MessageType = keyof typeof handledBy
/** The messages of one service, for `createConsumer`. */
export type MessagesOf<S extends Service> = {
  readonly [T in MessageType as (typeof handledBy)[T] extends S ? T : never]: Order
}

/** In the transaction that makes it true. */
export async function tell(kit: SagaKit, tx: Tx, type: MessageType, order: Order): Promise<void> {
  const event: OutboxEvent = {
    aggregateType: 'order',
    aggregateId: order.orderId,
    type,
    payload: order,
    destination: handledBy[type],
  }
  await publish(kit, tx, event)
}
