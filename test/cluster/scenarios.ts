/** The scenarios, in the order in which they are run. */
import { APPLICATION_SCENARIOS } from './application-scenarios.ts'
import { INSTALLATION_SCENARIOS } from './installation-scenarios.ts'
import { NODE_SCENARIOS } from './node-scenarios.ts'
import { PAGE_SCENARIOS } from './pages/scenarios.ts'
import type { Scenario } from './scenario.ts'

export const SCENARIOS: readonly Scenario[] = [
  ...INSTALLATION_SCENARIOS,
  ...NODE_SCENARIOS,
  ...APPLICATION_SCENARIOS,
  ...PAGE_SCENARIOS,
]
