// What the application of a fault run says became of a claim: the truth, and the same to everyone.
import { describe, expect, test } from 'vitest'
import { Books } from './books.ts'

const RECORD = '0123456789abcdef'
const of = (token: number, record = RECORD) => `${record}-${token}`

/** Attempts of the record by token, and whether each has ended. */
function booksOf(attempts: readonly (readonly [token: number, ended: boolean])[]) {
  const books = new Books()
  for (const [token, ended] of attempts) {
    books.started(of(token), token, `answer ${token}`)
    if (ended) books.ended(of(token), token)
  }
  return books
}

const saysIn = (books: Books, token: number) => {
  const { outcome, response } = books.open(of(token), () => books.renounced(of(token)))
  return response === undefined ? outcome : [outcome, Buffer.from(response.body_base64, 'base64').toString()]
}

describe('books that are opened about the claim with token 5', () => {
  test.each<[string, [number, boolean][], unknown]>([
    ['no attempt came', [], 'released'],
    ['it was executed', [[5, true]], ['completed', 'answer 5']],
    ['it is under way', [[5, false]], 'unknown'],
    ['it never came, and an earlier one was executed', [[3, true]], ['completed', 'answer 3']],
    ['it never came, and an earlier one is under way', [[3, false]], 'unknown'],
    [
      'two were executed: the later one answers',
      [
        [5, true],
        [3, true],
      ],
      ['completed', 'answer 5'],
    ],
    ['only a later one was executed', [[7, true]], 'released'],
  ])('%s', (_, attempts, says) => {
    expect(saysIn(booksOf(attempts), 5)).toEqual(says)
  })
})

test('nobody is told anything before they are opened, and everyone the same from then on', () => {
  const books = booksOf([[5, true]])
  expect(books.says(of(5)).outcome).toBe('unknown')
  books.open(of(5), () => {})
  books.started(of(4), 4, 'late')
  expect(books.says(of(5)).outcome).toBe('completed')
  expect(saysIn(books, 5)).toEqual(['completed', 'answer 5'])
})

test('who says that nothing was executed refuses that token and all below it, of this record alone', () => {
  const books = booksOf([])
  expect(books.refuses(of(5))).toBe(false)
  saysIn(books, 5)
  expect([4, 5, 6].map((token) => books.refuses(of(token)))).toEqual([true, true, false])
  expect(books.refuses(of(5, 'fedcba9876543210'))).toBe(false)
})
