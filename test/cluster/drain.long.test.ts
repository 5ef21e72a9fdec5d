/** One scenario of `npm run test:cluster`, where the machine can run a cluster; else it is skipped, and its title says why. */
import { expect, test } from 'vitest'
import { kubernetesProgramsNotInCache } from '../apiserver/programs.ts'
import { startCluster } from './cluster.ts'
import { NODE_SCENARIOS } from './node-scenarios.ts'
import { Release } from './release.ts'
import { whatIsMissing } from './requirements.ts'
import { runScenario } from './scenario.ts'
import { Clients } from './traffic.ts'

const unbuilt = await kubernetesProgramsNotInCache()
const missing = [
  ...whatIsMissing({ install: false }),
  ...(unbuilt.length === 0
    ? []
    : [`${unbuilt.join(', ')} are not built yet: npm run test:cluster builds them`]),
]
const title =
  'in a real cluster, three nodes are evicted as fast as the API grants it: each request is executed once, and three votes stay'

/**
 * First answers that were no success. Beside other tests a kubelet takes pods for dead that are only slow; the whole command,
 * on a machine of its own, allows none.
 */
const FAILED_MAX = 50

test.skipIf(missing.length > 0)(
  missing.length === 0 ? title : `${title} (skipped: ${missing.join('; ')})`,
  { timeout: 15 * 60_000 },
  async () => {
    await using cluster = await startCluster(console.log)
    const release = new Release(cluster, { patient: true })
    await release.install()
    await release.installApplication()
    await using clients = await Clients.start(cluster.machine)
    const drain = NODE_SCENARIOS.find(({ name }) => name === 'drain')!
    const { faults, books } = await runScenario(
      { ...drain, failedMax: FAILED_MAX },
      { release, clients, tell: console.log },
    )
    expect(faults).toEqual([])
    expect(books).toMatchObject({ executedTwice: [], lost: [], executed: books?.requests })
  },
)
