/** The table of spec/README.md, from the searches and what they found. */

import { SEARCHES, type Search } from './searches.ts'
import type { Found } from './spin.ts'

const BEGIN = '<!-- written by npm run spec -- --write -->'
const END = '<!-- end -->'

/** The page with its rows written anew; of a search that was not made now the row stays as it was. */
export function withTable(page: string, found: ReadonlyMap<string, Found>): string {
  const [before, rest = ''] = page.split(BEGIN)
  const [old = '', after] = rest.split(END)
  if (before === undefined || after === undefined) throw new Error(`the page has no ${BEGIN} … ${END}`)
  const rows = SEARCHES.map((search) => {
    const now = found.get(search.name)
    const stood = old.split('\n').find((line) => line.startsWith(`| ${search.name} |`))
    return now === undefined ? (stood ?? rowOf(search, undefined)) : rowOf(search, now)
  })
  const head =
    '| search | what may happen | states | transitions | seconds | found |\n|---|---|--:|--:|--:|---|'
  return `${before}${BEGIN}\n\n${head}\n${rows.join('\n')}\n\n${END}${after}`
}

function rowOf({ name, about, breaks }: Search, found: Found | undefined): string {
  if (found === undefined) return `| ${name} | ${about} | – | – | – | not made yet |`
  const { states, transitions, tookMs } = found
  const counts = `${states.toLocaleString('en')} | ${transitions.toLocaleString('en')} | ${(tookMs / 1_000).toFixed(1)}`
  return `| ${name} | ${about} | ${counts} | ${breaks === undefined ? 'nothing' : `\`${breaks}\` is broken`} |`
}
