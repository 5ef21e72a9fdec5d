/**
 * `npm run spec`: searches the specification, and prints what was found.
 *
 *   --long             also the searches that take minutes and gigabytes
 *   --only NAME        one search
 *   --stories          of each rule taken out, how the broken property came to be
 *   --write            writes the table of spec/README.md
 *
 * Ends with 0 where every search came to what it must, with 1 where one did not.
 */

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SEARCHES, type Search } from './searches.ts'
import { type Found, SPECIFICATION, search } from './spin.ts'
import { withTable } from './table.ts'

const { values } = parseArgs({
  options: {
    long: { type: 'boolean', default: false },
    only: { type: 'string' },
    stories: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
})

const asked = SEARCHES.filter(({ name, long }) =>
  values.only === undefined ? values.long || long !== true : name === values.only,
)
if (asked.length === 0) throw new RangeError(`--only ${values.only}: there is no such search`)

const found = new Map<string, Found>()
let wrong = 0
for (const one of asked) {
  const result = await search(one)
  found.set(one.name, result)
  const problem = problemOf(one, result)
  if (problem !== undefined) wrong += 1
  console.log(
    `${problem === undefined ? 'ok   ' : 'WRONG'} ${one.name}: ${problem ?? summaryOf(one, result)}`,
  )
  if (result.broken !== undefined && (values.stories || problem !== undefined))
    for (const line of result.broken.story) console.log(`        ${line}`)
}
if (values.write) {
  const page = join(SPECIFICATION, 'README.md')
  await writeFile(page, withTable(await readFile(page, 'utf8'), found))
}
console.log(`${asked.length - wrong} of ${asked.length} searches came to what they must`)
process.exitCode = wrong === 0 ? 0 : 1

function problemOf({ breaks }: Search, { broken, exhaustive }: Found): string | undefined {
  if (broken?.property !== breaks)
    return `${broken?.property ?? 'nothing'} is broken, ${breaks ?? 'nothing'} was to be`
  return breaks === undefined && !exhaustive ? 'not every state was looked at' : undefined
}

function summaryOf({ breaks }: Search, { states, tookMs }: Found): string {
  const counted = `${states.toLocaleString('en')} states, ${(tookMs / 1_000).toFixed(1)} s`
  return breaks === undefined ? `nothing broken in ${counted}` : `${breaks} is broken, after ${counted}`
}
