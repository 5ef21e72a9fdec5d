/**
 * Draws the pictures of the dashboards in docs/pictures: a minute of load on a real stack, in the middle of which a node
 * ends and comes back, asked by the queries of the panels. `npm run pictures`.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Panel } from '../dashboards/board.ts'
import { BOARDS } from '../dashboards/boards.ts'
import { type Drawn, drawBoard } from '../dashboards/draw.ts'
import { filledIn, labelOf } from '../dashboards/query.ts'
import { startMonitoredStack } from '../test/support/monitored-stack.ts'

const SECONDS = 50
const root = join(import.meta.dirname, '..')

await using stack = await startMonitoredStack(join(root, 'dashboards/rules/fencepost.rules.yaml'))
await using _ = stack.load(80, 4)
const from = Date.now() / 1_000
await pause((SECONDS * 1_000) / 3)
await stack.servers.kill(2)
await pause((SECONDS * 1_000) / 3)
await stack.servers.start(2)
await pause((SECONDS * 1_000) / 3)
const to = Date.now() / 1_000

await mkdir(join(root, 'docs/pictures'), { recursive: true })
for (const board of BOARDS) {
  const data = new Map<Panel, Drawn[]>()
  for (const panel of board.panels) {
    const drawn: Drawn[] = []
    for (const { expr, legend } of panel.queries)
      for (const { metric, values } of await stack.prometheus.range(filledIn(expr, '5s'), from + 5, to, 1))
        drawn.push({ label: labelOf(legend, metric), values })
    data.set(panel, drawn)
  }
  await writeFile(join(root, 'docs/pictures', `${board.uid}.svg`), drawBoard(board, data))
}
