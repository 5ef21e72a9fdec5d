// A short fault run with every build: some of each kind of fault, in an order from a seed, on real processes.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { breaksNoPromise } from './checked-run.ts'
import { ALL_FAULTS, faultsNamed } from './faults.ts'
import { MUTANTS } from './mutants.ts'

/** A node's memory; the network; late calls; a stranger on a node. `faults.long.test.ts` has one or two of every kind. */
const SLICE = ['F5', 'F14a', 'F42', 'F47a'] as const

test('no promise is broken, and every fault bites', { timeout: 400_000 }, () => breaksNoPromise(SLICE))

test('docs/internals/faults.md lists what clients see of all 47 faults, each with the command that runs it', () => {
  const page = sectionOf('What clients see')
  const rows = [...page.matchAll(/^\| (F\d+) \|.*\| `(.+)` \|$/gm)].map(([, id, command]) => ({
    id,
    command,
  }))
  expect(rows.map(({ id }) => id)).toEqual(Array.from({ length: 47 }, (_, at) => `F${at + 1}`))
  for (const { id, command } of rows) {
    if (id === 'F36') expect(command).toBe('npm run campaign -- order-saga --broker rabbitmq')
    else expect(command).toBe(`npm run faults -- --only ${id}`)
    if (id !== 'F36') expect(faultsNamed([id ?? '']).length).toBeGreaterThan(0)
  }
})

test('docs/internals/faults.md lists every fault and broken build, and no other', () => {
  const listed = [...sectionOf('The faults').matchAll(/^\| (F\d+[a-f]?) \|/gm)].map(([, id]) => id)
  expect(listed.toSorted()).toEqual([...ALL_FAULTS.map(({ id }) => id), 'F36'].toSorted())
  const mutants = [...sectionOf('The broken builds').matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, name]) => name)
  expect(mutants.toSorted()).toEqual(MUTANTS.map(({ name }) => name).toSorted())
})

/** Of docs/internals/faults.md. */
function sectionOf(heading: string): string {
  const page = readFileSync('docs/internals/faults.md', 'utf8')
  return page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? ''
}
