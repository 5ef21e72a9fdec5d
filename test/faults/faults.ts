/** THE list of named faults; docs/faults.md shows it, and a test compares both directions. */

import type { Fault } from './fault.ts'
import { FAULTS_OF_APPLICATIONS } from './faults-of-applications.ts'
import { FAULTS_OF_NETWORK } from './faults-of-network.ts'
import { FAULTS_OF_NODES } from './faults-of-nodes.ts'
import { FAULTS_OF_PROCESSES } from './faults-of-processes.ts'
import { LOSS_OF_MEMORY } from './loss-of-memory.ts'

export const FAULTS: readonly Fault[] = [
  ...FAULTS_OF_NODES,
  ...FAULTS_OF_NETWORK,
  ...FAULTS_OF_PROCESSES,
  ...FAULTS_OF_APPLICATIONS,
]

/** Comes last, because it ends what may be asked of earlier keys. */
export const LAST_FAULT: Fault = LOSS_OF_MEMORY

export const ALL_FAULTS: readonly Fault[] = [...FAULTS, LAST_FAULT]

export const MAY_LOSE_LEASE: ReadonlySet<string> = new Set(
  ALL_FAULTS.filter(({ mayLoseLease }) => mayLoseLease === true).map(({ id }) => id),
)
