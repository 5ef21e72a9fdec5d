/** Twenty copies of each of five payments at once, and again afterwards: five rows, and every copy has the same answer in the end. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { eventually } from '../../test/support/eventually.ts'
import { setStage } from './stage.ts'

export const schema = readFileSync(new URL('../payments.sql', import.meta.url), 'utf8')

/** @param program a server of `POST /orders/:id/payment` */
export function eachPaymentIsTakenOnce(program: string): void {
  test('each payment is taken once', async () => {
    await using stage = await setStage(schema)
    const url = await stage.serve(program)
    // As its clients do: 409 and 503 say that it is not known yet, on a machine without time for so many at once.
    const pay = (order: number) =>
      eventually(
        'an answer that decides',
        async () => {
          const response = await fetch(`${url}/orders/${order}/payment`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ amount: order }),
          })
          const body = await response.text()
          return ![409, 503].includes(response.status) && { status: response.status, body }
        },
        // What Retry-After says at least.
        { withinMs: 60_000, everyMs: 1_000 },
      )
    const orders = Array.from({ length: 100 }, (_, index) => index % 5)
    const answers = await Promise.all(orders.map(pay))
    answers.push(...(await Promise.all(orders.slice(0, 5).map(pay))))
    const first = answers.filter(({ status }) => status === 201)
    // One that was told 503 because its completion was late gets its own payment as a copy.
    expect(first.length).toBeLessThanOrEqual(5)
    expect(answers.filter(({ status }) => status === 200).length).toBe(105 - first.length)
    expect(new Set(answers.map(({ body }) => body)).size).toBe(5)
    const { rows } = await stage.pool.query('SELECT order_id, amount FROM payment ORDER BY order_id')
    expect(rows).toEqual([0, 1, 2, 3, 4].map((order) => ({ order_id: String(order), amount: order })))
  })
}
