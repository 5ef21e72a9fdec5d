// Porcupine rejects a history that breaks a promise, one for each; and accepts those that keep them all.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { folderOfTests } from '../../support/during-tests.ts'
import { FETCH_MS_MAX } from '../../support/fetched-programs.ts'
import { checkWithPorcupine, porcupineChecker, violationsOf } from './porcupine.ts'

type Sample = {
  readonly what: string
  readonly expected: 'accepted' | 'rejected'
  readonly operations: readonly object[]
}

const FOLDER = new URL('histories/', import.meta.url)
const samples = readdirSync(FOLDER)
  .toSorted()
  .map((name) => ({
    name: name.replace('.json', ''),
    ...(JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8')) as Sample),
  }))

const folder = folderOfTests('porcupine')
beforeAll(() => porcupineChecker(), FETCH_MS_MAX)

async function checked(name: string, operations: readonly object[], keySecondsMax?: number) {
  const file = join(folder, `${name}.jsonl`)
  writeFileSync(file, operations.map((one) => `${JSON.stringify(one)}\n`).join(''))
  return checkWithPorcupine(file, join(folder, 'drawings'), keySecondsMax)
}

describe.each(['rejected', 'accepted'] as const)('%s is', (expected) => {
  test.each(samples.filter((sample) => sample.expected === expected))('$name: $what', async (sample) => {
    const report = await checked(sample.name, sample.operations)
    expect(report.keys).toBeGreaterThan(0)
    expect(report.violations.map(({ result }) => result)).toEqual(expected === 'accepted' ? [] : ['Illegal'])
  })
})

test('a rejected history is reported and drawn', async () => {
  const [sample] = samples.filter(({ name }) => name === 'two-grants-at-once')
  const report = await checked('drawn', sample?.operations ?? [])
  const [violation] = violationsOf(report)
  expect(violation).toMatchObject({ checker: 'porcupine', key: 'reservation v' })
  expect(violation?.detail).toMatch(/^reserve\(101\)/)
  expect(readFileSync(report.violations[0]?.drawing ?? '', 'utf8')).toContain('<html')
})

test('a key that is not decided in its time fails like one that is broken', async () => {
  const operations = Array.from({ length: 40 }, (_, at) => [
    { f: 'reserve', key: 'v', startMs: 0, endMs: 9_000, status: 201, token: at + 1, expiresInMs: 1 },
    { f: 'release', key: 'v', startMs: 0, type: 'info', reason: 'lost', token: at + 1 },
    { f: 'complete', key: 'v', startMs: 0, type: 'info', reason: 'lost', token: at + 1, result: `${at}` },
  ]).flat()
  const never = { f: 'standing', key: 'v', startMs: 0, endMs: 9_000, status: 200, state: 'COMPLETED' }
  const report = await checked('undecided', [...operations, { ...never, outcome: 'of no holder' }], 1)
  expect(violationsOf(report).map(({ checker }) => checker)).toEqual(['porcupine-undecided'])
})

test('a line that is no operation is an error, not an empty history', async () => {
  await expect(checked('unreadable', [{ f: 'reserved' }])).rejects.toThrow(/"reserved" is not known/)
})
