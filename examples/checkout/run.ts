/**
 * `npm run campaign -- checkout`: 500 orders through three services without an orchestrator, each with a database of its
 * own, over RabbitMQ, while a process is killed every second; then the books, and how every saga ended.
 * `npm run campaign -- checkout --orders 20000 --minutes 10` is the long form.
 *
 * Options: --orders, --minutes (over which orders are placed), --minutes-max (then no more are placed), --kill-every-ms, --seed. Afterwards the sagas get twice as
 * long to end, at least four minutes.
 */
import { parseArgs } from 'node:util'
import { runCheckout } from './campaign.ts'

const { values } = parseArgs({
  options: {
    orders: { type: 'string', default: '500' },
    minutes: { type: 'string', default: '0.25' },
    'minutes-max': { type: 'string' },
    'kill-every-ms': { type: 'string', default: '1000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
})
const placeMs = Number(values.minutes) * 60_000
const minutesMax = values['minutes-max']
console.log(`seed ${values.seed}, ${values.orders} orders`)
const { books, kills, seconds, replayed } = await runCheckout({
  orders: Number(values.orders),
  placeMs,
  placeMaxMs: minutesMax === undefined ? undefined : Number(minutesMax) * 60_000,
  seed: Number(values.seed),
  moods: { decline: 0.05, failBefore: 0.05, failAfter: 0.05, late: 0.01, hang: 0.01 },
  victims: { worker: 70, connection: 15, backend: 8, database: 4, broker: 3 },
  killEveryMs: Number(values['kill-every-ms']),
  settleMs: Math.max(240_000, placeMs * 2),
  say: (line) => console.log(line),
})
const { faults, sagas, parked, ...figures } = books
console.log(`after ${seconds} s; killed: ${JSON.stringify(kills)}`)
console.table(
  Object.entries(figures).map(([book, value]) => ({
    book,
    value: typeof value === 'number' ? value : JSON.stringify(value),
  })),
)
console.table(
  Object.entries(sagas).map(([states, count]) => ({ 'orders, payments, stock': states, sagas: count })),
)
for (const line of replayed) console.log(`given up, and sent again by hand  ${line}`)
for (const line of parked) console.log(`waits for a person  ${line}`)
for (const fault of faults) console.log(`DOES NOT BALANCE  ${fault}`)
console.log(faults.length === 0 ? 'the books balance' : 'the books do NOT balance')
process.exitCode = faults.length === 0 ? 0 : 1
