/**
 * Draws the pictures of the dashboards in docs/pictures: a minute of load on a real stack, in the middle of which a node
 * dies and comes back and no relay takes messages from the outbox, from the queries of the panels.
 * `npm run generate -- pictures`, or `npm run generate -- pictures fencepost-sagas` for one of them.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createOutboxRelay, publish } from '@fencepost/saga'
import type { Panel } from '../dashboards/board.ts'
import { BOARDS } from '../dashboards/boards.ts'
import { type Drawn, drawBoard } from '../dashboards/draw.ts'
import { filledIn, labelOf } from '../dashboards/query.ts'
import { startMonitoredStack, startSagaTables } from '../test/support/monitored-stack.ts'
import { RecordingPublisher } from '../test/support/recording-publisher.ts'

const SECONDS = 50
const root = join(import.meta.dirname, '..')

const wanted = process.argv.slice(2)
await using sagas = await startSagaTables()
await using stack = await startMonitoredStack(
  ['fencepost', 'fencepost-sagas'].map((name) => join(root, `dashboards/rules/${name}.rules.yaml`)),
  { FENCEPOST_NODE_COLLECTION_INTERVAL: '5s' },
  { probe: true, sagas: sagas.metrics },
)
await using _ = stack.load(80, 4)
await using __ = startMessages()
const relayed = () => createOutboxRelay({ kit: sagas.kit, publisher: new RecordingPublisher() })
let relay = relayed()
relay.start()
const from = Date.now() / 1_000
await pause((SECONDS * 1_000) / 3)
await stack.servers.kill(2)
await relay.stop()
await pause((SECONDS * 1_000) / 3)
await stack.servers.start(2)
relay = relayed()
relay.start()
await pause((SECONDS * 1_000) / 3)
const to = Date.now() / 1_000
await relay.stop()

await mkdir(join(root, 'docs/pictures'), { recursive: true })
for (const board of BOARDS.filter(({ uid }) => wanted.length === 0 || wanted.includes(uid))) {
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

/** Ten messages a second of five aggregates. */
function startMessages(): AsyncDisposable {
  let sent = 0
  const timer = setInterval(() => {
    const event = {
      aggregateType: 'order',
      aggregateId: `o-${sent % 5}`,
      type: 'Changed',
      payload: { n: sent++ },
    }
    void sagas.kit.transaction((tx) => publish(sagas.kit, tx, event))
  }, 100)
  return { [Symbol.asyncDispose]: async () => clearInterval(timer) }
}
