import { expect, test } from 'vitest'
import { eventually } from '../../test/support/eventually.ts'
import { eachPaymentIsTakenOnce, schema } from '../support/payments.ts'
import { setStage } from '../support/stage.ts'

eachPaymentIsTakenOnce('express/server.ts')

test('connections that the database ends do not end the application', async () => {
  await using stage = await setStage(schema)
  const url = await stage.serve('express/server.ts')
  const pay = async (order: string) => {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ amount: 1 })
    return (await fetch(`${url}/orders/${order}/payment`, { method: 'POST', headers, body })).status
  }
  expect(await pay('before')).toBe(201)
  await stage.pool.query(
    `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
  )
  await eventually('a payment afterwards', async () => (await pay('after')) < 300)
})
