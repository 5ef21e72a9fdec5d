/**
 * The same lease in redsync (Go), Redisson (Java), node-redlock and here, on the same real nodes: what a holder gets, what another one
 * is told, and what becomes of both where the holder is suspended, nodes are silent, or one forgets.
 *
 *     npm run bench -- lease-profiles [--write]
 *
 * No timing: each cell of the table is what programs of their own were answered. Needs `go` and `mvn`, which fetch their
 * libraries; a column that can't be built says so. `--write` writes the table into docs/internals/other-clients.md.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { type Holders, openHolders, PROFILES } from './support/lease-holders.ts'
import { PLAYS } from './support/lease-plays.ts'
import { writeResults } from './support/results.ts'

const page = join(import.meta.dirname, '../docs/internals/other-clients.md')

const columns: { name: string; cells: readonly string[] }[] = []
for (const profile of PROFILES) {
  const cells: string[] = []
  for (const play of PLAYS) {
    await using nodes = await startRedisServers(5, { founded: true, appendOnly: true })
    await using holders = openHolders(profile, nodes.urls)
    const answered = await play.run(holders, nodes)
    cells.push(...(answered ?? play.rows.map(() => 'unchecked: its program could not be built')))
  }
  console.error(`${profile.name}: ${cells.length} answers`)
  columns.push({ name: profile.name, cells })
}

const rows = PLAYS.flatMap(({ rows }) => rows)
const table = [
  `| | ${columns.map(({ name }) => name).join(' | ')} |`,
  `|---|${columns.map(() => '---|').join('')}`,
  ...rows.map((row, index) => `| ${row} | ${columns.map(({ cells }) => cells[index]).join(' | ')} |`),
  '',
  `Redisson's \`RFencedLock\`, on one of the nodes: ${await fencedTokens()}.`,
].join('\n')
console.log(table)
writeResults('lease-profiles', {}, { rows, columns })
if (process.argv.includes('--write')) {
  const [begin, end] = ['<!-- written by `npm run bench -- lease-profiles --write` -->\n', '\n<!-- end -->']
  const text = readFileSync(page, 'utf8')
  const [before = '', rest = ''] = text.split(begin)
  writeFileSync(page, `${before}${begin}\n${table}\n${rest.slice(rest.indexOf(end))}`)
}

/** It has a token that grows, as long as its one node keeps its memory. */
async function fencedTokens(): Promise<string> {
  await using nodes = await startRedisServers(1)
  const profile = PROFILES.find(({ name }) => name.startsWith('Redisson')) as (typeof PROFILES)[number]
  await using holders: Holders = openHolders(profile, nodes.urls)
  const before = await holders.open()
  if (before === undefined) return 'unchecked, its program could not be built'
  const [first, second] = [await before.ask('fenced key 1000'), await before.ask('fenced key 1000')]
  await nodes.kill(0)
  await nodes.start(0, { emptied: true })
  const after = await holders.open()
  return `tokens ${first} and ${second}; after that node came back empty ${await after?.ask('fenced key 1000')}`
}
