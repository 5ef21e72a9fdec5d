/** `npm run faults -- --combinations`: every combination of states of five nodes is answered (L2). */

import { Clients } from './clients.ts'
import { allCombinations, type Combination, unanswered } from './experiments.ts'
import { History } from './history.ts'
import { openStage } from './stage.ts'

export async function runCombinations(): Promise<readonly Combination[]> {
  await using stage = await openStage()
  const history = new History()
  await using clients = new Clients(stage, history)
  let keys = 0
  return await allCombinations({
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
  })
}

export async function tellCombinations(): Promise<number> {
  const combinations = await runCombinations()
  for (const [answer, all] of Map.groupBy(combinations, (one) => one.answer)) {
    const slowest = Math.max(...all.map(({ tookMs }) => tookMs))
    console.log(
      `${String(all.length).padStart(4)} answered ${answer}, the slowest after ${slowest.toFixed(0)} ms`,
    )
  }
  const late = unanswered(combinations)
  for (const one of late)
    console.log(`NOT ANSWERED ${one.states}: ${one.answer} after ${one.tookMs.toFixed(0)} ms`)
  console.log(`${combinations.length} combinations, ${late.length} not answered`)
  return late.length === 0 ? 0 : 1
}
