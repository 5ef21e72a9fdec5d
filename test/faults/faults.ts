/** THE list of named faults; docs/internals/faults.md shows it, and a test compares both directions. */

import type { Fault } from './fault.ts'
import { FAULTS_OF_ANSWERS } from './faults-of-answers.ts'
import { FAULTS_OF_APPLICATIONS } from './faults-of-applications.ts'
import { FAULTS_OF_CLOCKS } from './faults-of-clocks.ts'
import { FAULTS_OF_NAMES } from './faults-of-names.ts'
import { FAULTS_OF_NETWORK } from './faults-of-network.ts'
import { FAULTS_OF_NODES } from './faults-of-nodes.ts'
import { FAULTS_OF_PROCESSES } from './faults-of-processes.ts'
import { FAULTS_OF_RECOVERY } from './faults-of-recovery.ts'
import { FAULTS_OF_RESTARTS } from './faults-of-restarts.ts'
import { FAULTS_OF_STRANGERS } from './faults-of-strangers.ts'
import { FOUNDED_ANEW } from './founded-anew.ts'
import { LOSS_OF_MEMORY } from './loss-of-memory.ts'

export const FAULTS: readonly Fault[] = [
  ...FAULTS_OF_NODES,
  ...FAULTS_OF_CLOCKS,
  ...FAULTS_OF_ANSWERS,
  ...FAULTS_OF_NETWORK,
  ...FAULTS_OF_PROCESSES,
  ...FAULTS_OF_APPLICATIONS,
  ...FAULTS_OF_RECOVERY,
  ...FAULTS_OF_RESTARTS,
  ...FAULTS_OF_NAMES,
  ...FAULTS_OF_STRANGERS,
]

/** Come last, in this order, because each makes earlier keys unusable. */
export const LAST_FAULTS: readonly Fault[] = [LOSS_OF_MEMORY, FOUNDED_ANEW]

export const ALL_FAULTS: readonly Fault[] = [...FAULTS, ...LAST_FAULTS]

export const MAY_LOSE_LEASE: ReadonlySet<string> = new Set(
  ALL_FAULTS.filter(({ mayLoseLease }) => mayLoseLease === true).map(({ id }) => id),
)

/**
 * @param names ids, or rows of the matrix: `F22` is all of `F22a` to `F22f`
 * @throws RangeError where there is no such fault
 */
export function faultsNamed(names: readonly string[]): readonly Fault[] {
  const named = (name: string) =>
    ALL_FAULTS.filter(({ id }) => id === name || id.replace(/[a-z]$/, '') === name)
  const unknown = names.filter((name) => named(name).length === 0)
  if (unknown.length > 0) throw new RangeError(`no fault is called ${unknown.join(', ')}`)
  return [...new Set(names.flatMap(named))]
}
