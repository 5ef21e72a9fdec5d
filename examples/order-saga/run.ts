/**
 * `npm run campaign -- order-saga`: 500 orders while workers, database connections and backends are killed at random,
 * and the books. `npm run campaign -- order-saga --broker rabbitmq --minutes 10 --orders 20000`: the same with
 * RabbitMQ, and database and broker killed as well.
 *
 * Options: --orders, --minutes (over which orders are placed), --minutes-max (then no more are placed), --broker mailbox|rabbitmq, --kill-every-ms, --seed.
 * Afterwards the sagas get as long again to end, at least four minutes.
 */
import { parseArgs } from 'node:util'
import { type CampaignOptions, runCampaign } from './campaign.ts'

const { values } = parseArgs({
  options: {
    orders: { type: 'string', default: '500' },
    minutes: { type: 'string', default: '0.25' },
    'minutes-max': { type: 'string' },
    broker: { type: 'string', default: 'mailbox' },
    'kill-every-ms': { type: 'string', default: '700' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
})
if (values.broker !== 'mailbox' && values.broker !== 'rabbitmq')
  throw new Error('--broker is mailbox or rabbitmq')
const minutesMax = values['minutes-max']
const rabbit = values.broker === 'rabbitmq'
const options: CampaignOptions = {
  orders: Number(values.orders),
  placeMs: Number(values.minutes) * 60_000,
  placeMaxMs: minutesMax === undefined ? undefined : Number(minutesMax) * 60_000,
  broker: values.broker,
  seed: Number(values.seed),
  moods: { decline: 0.05, failBefore: 0.05, failAfter: 0.05, late: 0.01, hang: 0.01 },
  victims: rabbit
    ? { worker: 55, connection: 20, backend: 15, database: 5, broker: 5 }
    : { worker: 55, connection: 30, backend: 10, database: 5, broker: 0 },
  killEveryMs: Number(values['kill-every-ms']),
  settleMs: Math.max(240_000, Number(values.minutes) * 60_000),
  say: (line) => console.log(line),
}
console.log(`seed ${options.seed}, ${options.orders} orders, delivery by ${options.broker}`)
const { books, kills, seconds, requests, declined, replayed } = await runCampaign(options)
const { faults, parked, ...figures } = books
console.log(`after ${seconds} s; killed: ${JSON.stringify(kills)}`)
console.log(`provider: ${requests} requests, ${declined} cards declined`)
console.table(
  Object.entries(figures).map(([name, value]) => ({
    book: name,
    value: typeof value === 'number' ? value : JSON.stringify(value),
  })),
)
for (const line of replayed) console.log(`given up, and sent again by hand  ${line}`)
for (const line of parked) console.log(`waits for a person  ${line}`)
for (const fault of faults) console.log(`DOES NOT BALANCE  ${fault}`)
console.log(faults.length === 0 ? 'the books balance' : 'the books do NOT balance')
process.exitCode = faults.length === 0 ? 0 : 1
