/** `npm run faults -- --slow-node`: the cost of one late or silent node per acquisition, beside a healthy cluster. */

import { Clients } from './clients.ts'
import { oneSlowNode, SLOW_NODE_RATIO_MAX } from './experiments.ts'
import { History } from './history.ts'
import { latenciesAsText, ratioToHealthy } from './report.ts'
import { openStage } from './stage.ts'

const SAMPLES = 200

export async function tellSlowNode(rounds: number): Promise<number> {
  await using stage = await openStage({ sidecars: 1 })
  const history = new History()
  await using clients = new Clients(stage, history)
  let keys = 0
  const latencies = await oneSlowNode(
    {
      stage,
      clients,
      history,
      fraction: () => 0,
      freshKey: () => {
        keys += 1
        return `key-${keys}`
      },
      recentKeys: () => [],
      lose: () => {},
      demand: async () => {},
    },
    rounds,
    SAMPLES,
  )
  for (const line of latenciesAsText(latencies)) console.log(line)
  const worst = Math.max(...latencies.map(({ p99Ms }) => ratioToHealthy(latencies, p99Ms)))
  const noise = Math.max(...latencies.map((one) => one.noise))
  console.log(`worst ${worst.toFixed(2)} of healthy, ${SLOW_NODE_RATIO_MAX} is promised`)
  if (worst <= SLOW_NODE_RATIO_MAX) return 0
  if (noise <= SLOW_NODE_RATIO_MAX) return 1
  console.log(`INVALID: the machine alone makes ${noise.toFixed(2)} of it; measure again when it is quiet`)
  return 2
}
