// Where the parameters of a statement are, and whether it answers with rows.
import { expect, test } from 'vitest'
import { answersWithRows, parametersOf } from '../../packages/saga/src/foreign-transactions.ts'

test.each<[string, readonly number[]]>([
  ['SELECT $2, $1, $2', [2, 1, 2]],
  [`SELECT 'it''s $1', $2`, [2]],
  [String.raw`SELECT E'it\'s $1', $2`, [2]],
  ['SELECT "a ""$1""", $2', [2]],
  ['SELECT $$ $1 $$, $body$ $1 $$ $body$, $2', [2]],
  ['SELECT $1 -- not $2\n, $3', [1, 3]],
  ['SELECT $1 /* not $2 */, $3', [1, 3]],
  ['SELECT a$1 FROM t WHERE b=$2', [2]],
  ['SELECT 1', []],
])('%s has the parameters %j', (text, numbers) => {
  const parts = parametersOf(text)
  expect(parts.numbers).toEqual(numbers)
  const again = parts.texts.flatMap((piece, index) =>
    index === 0 ? [piece] : [`$${numbers[index - 1]}`, piece],
  )
  expect(again.join('')).toBe(text)
})

test.each<[string, boolean]>([
  ['SELECT 1', true],
  ['  -- a note\n  select 1 FOR UPDATE', true],
  ['(SELECT 1) UNION (SELECT 2)', true],
  ['VALUES (1)', true],
  ['WITH a AS (SELECT 1) SELECT * FROM a', true],
  ['WITH a AS (SELECT (1)), b (n) AS MATERIALIZED (SELECT 2) SELECT * FROM a, b FOR UPDATE', true],
  ['WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone', true],
  ['WITH gone AS (DELETE FROM t RETURNING *) INSERT INTO u SELECT * FROM gone', false],
  ['WITH a AS (SELECT 1) UPDATE t SET n = 1', false],
  ['WITH a AS (SELECT 1) UPDATE t SET n = 1 RETURNING n', true],
  [`INSERT INTO t VALUES ('RETURNING')`, false],
  ['UPDATE t SET n = (SELECT 1)', false],
  ['SAVEPOINT s', false],
])('%s answers with rows: %s', (text, rows) => {
  expect(answersWithRows(text)).toBe(rows)
})
