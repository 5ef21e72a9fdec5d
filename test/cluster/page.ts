/** docs/operations/cluster-tests.md: a run writes the rows of what it ran. */
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { release } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { KUBERNETES } from '../apiserver/programs.ts'
import { requireProgram } from '../support/programs.ts'
import { COREDNS } from './dns.ts'
import type { Patience } from './release.ts'
import { cgroupHierarchies, clusterProgram } from './requirements.ts'
import type { Row } from './scenario.ts'
import { SCENARIOS } from './scenarios.ts'
import { mergedTable } from './table.ts'

const PAGE = join(import.meta.dirname, '../../docs/operations/cluster-tests.md')
const BEGIN = '<!-- written by `npm run test:cluster -- --write` -->'
const END = '<!-- end -->'

async function versionOf(program: string, option: string, pattern: RegExp): Promise<string> {
  const { stdout } = await promisify(execFile)(program, [option])
  return pattern.exec(stdout)?.[1] ?? 'of unknown version'
}

export async function writePage(rows: readonly Row[], { patient }: Patience): Promise<void> {
  const containerd = await versionOf(clusterProgram('containerd'), '--version', / v?(\d\S*)/)
  const runc = await versionOf(clusterProgram('runc'), '--version', /runc version (\S+)/)
  const server = await versionOf(requireProgram('redis'), '--version', /v=(\S+)/)
  const versions = [
    `Kubernetes ${KUBERNETES}`,
    `CoreDNS ${COREDNS}`,
    `containerd ${containerd}`,
    `runc ${runc}`,
    `Redis ${server} in place of Valkey`,
    `Node ${process.versions.node}`,
    `Linux ${/^[\d.]+/.exec(release())?.[0]} with cgroup v${cgroupHierarchies().version}`,
  ]
  const date = new Date().toISOString().slice(0, 10)
  const how = patient ? ' With `--patient`, because two cores carry all of it.' : ''
  const page = await readFile(PAGE, 'utf8')
  const earlier = page.slice(page.indexOf(BEGIN), page.indexOf(END))
  const names = SCENARIOS.map(({ name }) => name)
  const table = mergedTable(earlier, rows, names)
  const written = [BEGIN, '', `${date}: ${versions.join(', ')}.${how}`, '', table, '', END].join('\n')
  await writeFile(
    PAGE,
    `${page.slice(0, page.indexOf(BEGIN))}${written}${page.slice(page.indexOf(END) + END.length)}`,
  )
}
