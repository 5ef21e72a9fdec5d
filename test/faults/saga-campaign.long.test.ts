// Orders are placed over RabbitMQ while workers, connections, backends, the database and the broker are killed: no order
// is lost, no customer is charged twice, and the books balance. Longer still:
// `npm run campaign -- order-saga --broker rabbitmq`.
import { test } from 'vitest'
import { booksBalance } from './campaign-books.ts'

test('300 orders under random kills: the books balance', () => booksBalance(300, 10_000), 240_000)
