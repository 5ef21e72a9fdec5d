// Orders are placed over RabbitMQ while workers, connections, backends, the database and the broker are killed: no order
// is lost, no customer is charged twice, and the books balance. A slice of `saga-campaign.long.test.ts`.
import { test } from 'vitest'
import { booksBalance } from './campaign-books.ts'

test('40 orders under random kills: the books balance', () => booksBalance(40, 3_000), 240_000)
