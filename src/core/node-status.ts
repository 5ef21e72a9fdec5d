/** A node as one sidecar or command knows it: the one form in which metrics, log, `/readyz`, `doctor`, `nodes status`, operator API and page get it. */

import type { NodeFault } from './node-faults.ts'

type NodePlace = {
  /** As the list of its cluster has it: its address, or one of `FENCEPOST_REDIS_NODE_NAMES`. The same for all sidecars. */
  readonly name: string
  /** Where this process reaches it, without credentials. */
  readonly address: string
}

export type NodeStatus = NodePlace & {
  /** Its quorum group, where there are several. */
  readonly group?: string | undefined
  /** `suspended`: it would vote, and this sidecar does not count it for its clock. */
  readonly state: 'voting' | 'suspended' | 'quarantined' | 'unfit' | 'down'
  /** When that began, as this sidecar saw it, or else as the node says. */
  readonly sinceWallMs?: number | undefined
  /** Its row in `node-faults.ts`. */
  readonly fault?: NodeFault | undefined
  /** Why it does not vote; of one that votes: why it takes no writes. */
  readonly reason?: string | undefined
  /** What ends that. */
  readonly remedy?: string | undefined
  /** How far its clock is ahead of ours, as its last answer showed. */
  readonly clock?: ClockOffset | undefined
  /** When its server was started, by its own clock. */
  readonly startedWallMs?: number | undefined
  /** Share of its memory in use, where that is limited. */
  readonly memoryShare?: number | undefined
  /** The run of its server, and which program that is. */
  readonly run?: string | undefined
  readonly server?: string | undefined
  readonly quarantine?:
    | {
        readonly forMs: number
        /** Until then it has no vote, whatever it does; absent where no time that passes brings it one. */
        readonly remainingMs?: number
        readonly recordsCopied: number
        readonly sourcesDone: number
      }
    | undefined
}

/** It votes, and no claim can count on it. */
export function refusesWrites({ state, reason }: Pick<NodeStatus, 'state' | 'reason'>): boolean {
  return state === 'voting' && reason !== undefined
}

export function takesWrites({ state, reason }: Pick<NodeStatus, 'state' | 'reason'>): boolean {
  return state === 'voting' && reason === undefined
}

/** Half of the round trip is the uncertainty. `skewed`: further off than tolerated. */
export type ClockOffset = {
  readonly offsetMs: number
  readonly uncertaintyMs: number
  readonly skewed: boolean
}

export function placeOf({ name, address }: NodePlace): string {
  return name === address ? name : `${name} (${address})`
}
